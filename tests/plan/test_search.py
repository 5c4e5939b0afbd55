"""The partition search against known curves, with noise, memory limits and few samples."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from refimpl.plan.partitions.search import Fit, PartitionSearch, fit_curve


def walk(search, seconds, fits=lambda p: True):
    """Run a search on a curve; return the P that were tried, in order."""
    tried = []
    while (p := search.propose()) is not None:
        tried.append(p)
        assert len(tried) < 100
        if fits(p):
            search.measured(p, seconds(p))
        else:
            search.exceeded(p)
    return tried


def test_the_bounded_fit_is_the_best_of_a_grid():
    """Plain definition: no curve with nonnegative theta1, theta2 has a smaller sum of squares."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        samples = dict(zip((1, 2, 4, 8, 16), rng.random(5) + 0.5))
        found, counts = fit_curve(samples), np.array(list(samples))
        assert min(found.theta1, found.theta2) >= 0
        error = ((found.seconds(counts) - list(samples.values())) ** 2).sum()
        theta1, theta2 = np.meshgrid(np.linspace(0, 2, 41), np.linspace(0, 0.2, 41))
        rest = np.array(list(samples.values())) - theta1[..., None] / counts - theta2[..., None] * counts
        assert ((rest - rest.mean(-1, keepdims=True)) ** 2).sum(-1).min() >= error - 1e-12


def test_a_walk_goes_on_from_its_own_record():
    """Rebuilt from plain data before every proposal, a walk with noise and a memory limit is the unbroken one."""
    for seed in range(30):
        seconds, fits = noisy(seed), lambda p, least=seed % 7: p >= least
        whole, broken = PartitionSearch(8, 40), PartitionSearch(8, 40)
        tried = walk(whole, seconds, fits)
        for partitions in [*tried, None]:
            record = json.loads(json.dumps(asdict(broken)))
            broken = PartitionSearch(**{**record, "samples": {int(p): t for p, t in record["samples"].items()}})
            assert broken.propose() == partitions
            if partitions is not None and fits(partitions):
                broken.measured(partitions, seconds(partitions))
            elif partitions is not None:
                broken.exceeded(partitions)
        assert broken == whole and broken.best() == whole.best()


def noisy(seed):
    """Return P -> seconds: a curve with noise, the same for the same P."""
    noise = np.random.default_rng(seed).normal(1.0, 0.1, 64)
    return lambda p: (1.0 + 12.0 / p + 0.05 * p) * noise[p]


def test_fewer_than_three_samples_are_no_curve():
    with pytest.raises(ValueError, match="2 samples of P: .* at least 3"):
        fit_curve({1: 1.0, 2: 2.0})


@pytest.mark.parametrize("start", [1, 2, 3, 8, 48])
@pytest.mark.parametrize("optimum", [1, 3, 10, 33, 100])
def test_the_minimum_of_any_curve_is_found_from_anywhere(start, optimum):
    search = PartitionSearch(start, 10_000)
    tried = walk(search, Fit(0.1, optimum**2 * 1e-3, 1e-3).seconds)
    assert search.best() == optimum and len(tried) == len(set(tried)) >= 3


@pytest.mark.parametrize("seed", range(5))
def test_noise_moves_the_choice_little(seed):
    """2 % of noise on samples: the chosen P costs at most 5 % more than the best."""
    curve, rng = Fit(0.1, 1.0, 0.002), np.random.default_rng(seed)
    search = PartitionSearch(4, 5000)
    walk(search, lambda p: curve.seconds(p) * (1 + 0.02 * rng.standard_normal()))
    assert curve.seconds(search.best()) <= 1.05 * curve.seconds(curve.best(range(1, 5000)))


def test_memory_raises_the_lower_limit():
    """What fits needs at least 12 partitions, though fewer were faster."""
    search = PartitionSearch(2, 1000)
    assert walk(search, Fit(1.0, 9.0, 1.0).seconds, lambda p: p >= 12) == [2, 4, 8, 16, 32, 23]
    assert search.least == 9 and search.best() == 16 and search.too_large == [2, 4, 8]
    search = PartitionSearch(16, 1000)
    assert walk(search, Fit(1.0, 9.0, 1.0).seconds, lambda p: p >= 12) == [16, 32, 8, 23]
    assert search.least == 9 and search.best() == 16


def test_a_larger_one_that_does_not_fit_leaves_the_smaller_ones():
    """P = 9 on 8 ranks gives one rank 2/9 of the rows, P = 8 gives each 1/8: what has fitted stays allowed."""
    search = PartitionSearch(8, 100)
    curve = Fit(1.0, 81.0, 1.0)
    walk(search, curve.seconds)
    assert search.best() == 9
    search.exceeded(9)
    assert search.least == 1 and search.best() == 8
    search = PartitionSearch(8, 100)
    assert walk(search, curve.seconds, lambda p: p not in (9, 10)) == [8, 16, 4, 9, 10]
    assert search.best() == 8 and search.too_large == [9, 10]


def test_what_the_curve_says_is_measured_before_it_is_believed():
    """The busiest of 8 owners holds ceil(P / 8) / P of the rows: between 8 and 16 every P is slower than both."""
    def saw(partitions):
        return 1 + 8 * np.ceil(partitions / 8) / partitions + 0.05 * partitions

    search = PartitionSearch(8, 100)
    tried = walk(search, saw)
    assert 8 < tried[-1] < 16 and search.said == tried[-1]  # as the curve has it
    assert search.best() == 8 == min(range(1, 101), key=saw)


def test_nothing_that_fits_is_refused():
    search = PartitionSearch(4, 10)
    with pytest.raises(ValueError, match="up to 10 keeps within the memory limit; raise --memory-limit"):
        walk(search, float, lambda p: False)
    assert search.too_large == [4, 8, 10]


def test_three_samples_where_three_are_possible():
    for start, largest in ((1, 3), (1, 1000), (2, 3), (4, 4), (3, 3), (7, 8)):
        search = PartitionSearch(start, largest)
        walk(search, Fit(1.0, 0.0, 1.0).seconds)
        assert len(search.samples) >= 3 and search.best() == 1
    search = PartitionSearch(1, 2)
    walk(search, {1: 3.0, 2: 2.0}.get)
    assert search.fit() is None and search.best() == 2 and search.to_json()["theta"] is None
    search = PartitionSearch(5, 1)
    assert walk(search, float) == [1] and search.best() == 1


def test_too_few_samples_for_a_curve_know_what_did_not_fit():
    search = PartitionSearch(1, 2)
    walk(search, {1: 3.0, 2: 2.0}.get)
    search.exceeded(2)
    assert search.best() == 1
    search.exceeded(1)
    with pytest.raises(ValueError, match="no P that was measured fits in memory any more; raise --memory-limit"):
        search.best()


def test_a_search_without_samples_or_sense_says_so():
    with pytest.raises(ValueError, match="fewer steps than one sample"):
        PartitionSearch(1, 1).best()
    with pytest.raises(ValueError, match="both must be at least 1"):
        PartitionSearch(0, 1)
    with pytest.raises(ValueError, match="a sample is a positive time"):
        PartitionSearch(1, 1).measured(1, float("nan"))


def test_what_it_found_is_plain_data():
    search = PartitionSearch(8, 1000)
    walk(search, Fit(1.0, 121.0, 1.0).seconds, lambda p: p > 4)
    found = json.loads(json.dumps(search.to_json()))
    assert [s["partitions"] for s in found["samples"]] == [8, 16, 11] and found["chosen"] == 11
    assert found["least"] == 5 and found["too_large"] == [4] and np.allclose(found["theta"], [1.0, 121.0, 1.0])
