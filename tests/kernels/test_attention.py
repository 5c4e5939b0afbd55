"""Additive attention: each version against the definition, gradients by differences, padding.

On a GPU tanh and exp are CUDA's, and sums over units are float64's.
"""

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.attention import (
    attention_scores, attention_scores_backward, definition, fast, masked_softmax, masked_softmax_backward,
)


def drawn(sentences, time, units, dtype=np.float64, seed=0):
    """Return (query, keys, scale, lengths)."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, time + 1, sentences)
    lengths[-1] = time
    return (*(random.normal(size=shape).astype(dtype) for shape in
              ((sentences, units), (sentences, time, units), (units,))), lengths)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sentences, time, units", [(1, 1, 1), (2, 3, 5), *(pytest.param(*shape, marks=pytest.mark.big)
                         for shape in [(3, 5, 7), (2, 9, 64), (4, 3, 33), (5, 17, 130)])])
def test_kernels_against_the_definition(place, monkeypatch, sentences, time, units, dtype):
    """A score: units terms of at most |scale|, each tanh within 6 units, each product and sum 1."""
    monkeypatch.setattr("kernels.attention.cuda.LANES", 4)
    query, keys, scale, lengths = drawn(sentences, time, units, dtype)
    there = [place.asarray(a) for a in (query, keys, scale, lengths)]
    eps, past = np.finfo(dtype).eps, np.arange(time) >= lengths[:, None]
    scores, plain = to_numpy(attention_scores(*there)), definition.attention_scores(query, keys, scale, lengths)
    assert np.abs(scores - plain).max() <= (units + 8) * eps * np.abs(scale).sum() and not scores[past].any()

    weights = to_numpy(masked_softmax(place.asarray(plain), there[3]))
    expected = definition.masked_softmax(plain, lengths)
    assert np.abs(weights - expected).max() <= (time + 8) * eps and not weights[past].any()
    dweights = np.random.default_rng(1).normal(size=weights.shape).astype(dtype)
    dscores = definition.masked_softmax_backward(dweights, expected)
    found = to_numpy(masked_softmax_backward(place.asarray(dweights), place.asarray(expected)))
    assert np.abs(found - dscores).max() <= 8 * (time + 8) * eps

    sums = [np.ones_like(keys), np.full_like(query, 2)]  # they are added to
    ours = [place.asarray(a.copy()) for a in sums]
    dquery = attention_scores_backward(place.asarray(dscores), *there[:3], *ours)
    expected = definition.attention_scores_backward(dscores, query, keys, scale, *sums)
    bound = 16 * time * (max(time, units) + 8) * eps * max(1, np.abs(scale).max())
    for one, other in zip((dquery, *ours), (expected, *sums)):
        assert np.abs(to_numpy(one) - other).max() <= bound


def test_gradients_by_differences():
    from models.gradient_check import ridders

    query, keys, scale, lengths = drawn(3, 5, 7)
    moves = drawn(3, 5, 7, seed=1)[:3]
    d = np.random.default_rng(2).normal(size=(3, 5))

    def loss(step):
        scores = attention_scores(query + step * moves[0], keys + step * moves[1], scale + step * moves[2], lengths)
        return float(np.vdot(d, masked_softmax(scores, lengths)))

    weights = masked_softmax(attention_scores(query, keys, scale, lengths), lengths)
    dkeys, dscale = np.zeros_like(keys), np.zeros_like(query)
    dquery = attention_scores_backward(masked_softmax_backward(d, weights), query, keys, scale, dkeys, dscale)
    by_gradient = sum(np.vdot(g, move) for g, move in zip((dquery, dkeys, dscale.sum(axis=0)), moves))
    by_differences, tolerance = ridders(loss)
    assert abs(by_gradient - by_differences) <= tolerance < 1e-6


def test_what_stands_past_the_end_does_not_matter():
    query, keys, scale, lengths = drawn(3, 5, 7, np.float32)
    other = keys.copy()
    other[np.arange(5) >= lengths[:, None]] = 1e30
    for version in (fast, definition):
        one, two = (version.masked_softmax(version.attention_scores(query, k, scale, lengths), lengths)
                    for k in (keys, other))
        assert np.array_equal(one, two)


def test_weights_of_equal_scores_are_exact_and_large_ones_do_not_overflow():
    """A sum of 4 equal exponentials has no rounding: each weight is 1/4."""
    weights = masked_softmax(np.full((2, 6), -3.0, np.float32), np.array([4, 1]))
    assert weights.tolist() == [[0.25] * 4 + [0, 0], [1, 0, 0, 0, 0, 0]]
    assert masked_softmax(np.array([[1e4, -1e4, 1e4]], np.float32), np.array([3])).tolist() == [[0.5, 0, 0.5]]


def test_nan_is_not_swallowed():
    query, keys, scale, lengths = drawn(2, 3, 4, np.float32)
    query[0, 1] = np.nan
    scores = attention_scores(query, keys, scale, lengths)
    assert np.isnan(scores[0, : lengths[0]]).all() and not np.isnan(scores[1]).any()
