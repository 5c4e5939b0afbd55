"""Additive attention: the compiled kernels against their definition, gradients by differences, padding, PyTorch."""

import numpy as np
import pytest

from kernels.attention import (
    attention_scores, attention_scores_backward, definition, fast, masked_softmax, masked_softmax_backward,
)

SHAPES = [(1, 1, 1), (3, 5, 7), (2, 9, 64), (4, 3, 33)]


def drawn(sentences, time, units, dtype=np.float64, seed=0):
    """Return (query, keys, scale, lengths)."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, time + 1, sentences)
    lengths[-1] = time
    return (*(random.normal(size=shape).astype(dtype) for shape in
              ((sentences, units), (sentences, time, units), (units,))), lengths)


def error(units, scale, dtype):
    """Bound of a score's error: units terms of at most |scale|, each tanh within 6 units, each product and sum 1."""
    return (units + 8) * np.finfo(dtype).eps / 2 * np.abs(scale).sum() * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_kernels_against_the_definition(shape, dtype):
    query, keys, scale, lengths = drawn(*shape, dtype)
    inside = np.arange(shape[1]) < lengths[:, None]
    scores, plain = attention_scores(query, keys, scale, lengths), definition.attention_scores(query, keys, scale, lengths)
    assert np.abs(scores - plain).max() <= error(shape[2], scale, dtype) and not scores[~inside].any()

    weights, expected = masked_softmax(scores, lengths), definition.masked_softmax(scores, lengths)
    rounding = (shape[1] + 8) * np.finfo(dtype).eps
    assert np.abs(weights - expected).max() <= rounding and not weights[~inside].any()
    dweights = np.random.default_rng(1).normal(size=weights.shape).astype(dtype)
    dscores = masked_softmax_backward(dweights, weights)
    assert np.abs(dscores - definition.masked_softmax_backward(dweights, weights)).max() <= 8 * rounding

    found, dkeys, dscale = [np.zeros((2, *a.shape), dtype) for a in (query, keys, query)]
    for k, version in enumerate((fast, definition)):
        dkeys[k], dscale[k] = 1, 2  # they are added to
        found[k] = version.attention_scores_backward(dscores, query, keys, scale, dkeys[k], dscale[k])
    for pair in (found, dkeys, dscale):
        assert np.abs(pair[0] - pair[1]).max() <= 16 * shape[1] * rounding * max(1, np.abs(scale).max())


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


def test_weights_of_equal_scores_are_exact():
    """A sum of 4 equal exponentials has no rounding: each weight is 1/4."""
    weights = masked_softmax(np.full((2, 6), -3.0, np.float32), np.array([4, 1]))
    assert weights.tolist() == [[0.25] * 4 + [0, 0], [1, 0, 0, 0, 0, 0]]


def test_large_scores_do_not_overflow():
    scores = np.array([[1e4, -1e4, 1e4]], np.float32)
    assert masked_softmax(scores, np.array([3])).tolist() == [[0.5, 0, 0.5]]


def test_nan_is_not_swallowed():
    query, keys, scale, lengths = drawn(2, 3, 4, np.float32)
    query[0, 1] = np.nan
    scores = attention_scores(query, keys, scale, lengths)
    assert np.isnan(scores[0, : lengths[0]]).all() and not np.isnan(scores[1]).any()
