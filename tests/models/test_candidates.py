"""The candidate sampler: distinct, repeatable, and distributed as its formulas say."""

import numpy as np
import pytest

from models.candidates import draw_candidates, log_expected_count


def by_definition(key, samples, vocabulary):
    """Draw one at a time until enough distinct classes have come."""
    from kernels.random import uniform

    seen, tries = set(), 0
    while len(seen) < samples:
        u = uniform(key, 1, start=tries)
        seen.add(min(int(np.floor(np.exp(u * np.log(vocabulary + 1.0)))[0]) - 1, vocabulary - 1))
        tries += 1
    return sorted(seen), tries


@pytest.mark.parametrize("samples, vocabulary", [(1, 1), (1, 5), (5, 5), (16, 50), (100, 25_000)])
def test_equal_to_drawing_one_at_a_time(samples, vocabulary):
    for key in range(5):
        drawn = draw_candidates(key, samples, vocabulary)
        ids, tries = by_definition(key, samples, vocabulary)
        assert drawn.ids.tolist() == ids and drawn.tries == tries
        assert drawn.ids.dtype == np.int64


def test_too_many_samples_are_refused():
    with pytest.raises(ValueError, match="6 distinct candidates from a vocabulary of 5"):
        draw_candidates(0, 6, 5)


def test_first_tries_follow_the_log_uniform_law():
    """Two-sided: chi-square of 20,000 first tries, 49 degrees of freedom, between its 0.0005 and 0.9995 quantiles."""
    vocabulary, count = 50, 20_000
    counts = np.zeros(vocabulary)
    for key in range(count):
        counts[draw_candidates.__wrapped__(key, 1, vocabulary).ids[0]] += 1
    k = np.arange(vocabulary)
    p = np.log((k + 2) / (k + 1)) / np.log(vocabulary + 1)
    assert abs(p.sum() - 1) < 1e-12
    chi_square = np.sum((counts - count * p) ** 2 / (count * p))
    assert 22.1 < chi_square < 88.6


def test_expected_counts_are_the_inclusion_frequencies():
    """E[1 - (1 - p)^tries] over draws = frequency of inclusion, within 5 deviations of a binomial, both ways."""
    vocabulary, samples, draws = 200, 40, 2000
    included, expected = np.zeros(vocabulary), np.zeros(vocabulary)
    everyone = np.arange(vocabulary)
    for key in range(draws):
        drawn = draw_candidates.__wrapped__(key, samples, vocabulary)
        included[drawn.ids] += 1
        expected += np.exp(log_expected_count(everyone, drawn.tries, vocabulary))
    deviation = np.sqrt(expected * (1 - expected / draws))
    z = (included - expected) / np.maximum(deviation, 1e-9)
    # the formula takes tries as given, though they depend on the draw: a bias of O(1/samples) relative, allowed for
    assert np.all(np.abs(included - expected) < 5 * deviation + expected / samples)
    assert np.abs(z).max() > 0.5, "a perfect fit would be suspicious too"


def test_log_expected_count_in_the_limits():
    assert log_expected_count(np.array([0]), 10**9, 10)[0] == 0.0
    rare = log_expected_count(np.array([793_469]), 1, 793_470)[0]
    exact = np.log(np.log1p(1 / 793_470) / np.log(793_471))
    assert abs(rare - exact) < 1e-9
