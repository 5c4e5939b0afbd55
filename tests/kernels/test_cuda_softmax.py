"""Exponentials of sampled softmax: on a GPU as close to the exact ones as rounding lets them be."""

import numpy as np
import pytest

from kernels.softmax import definition, exponentials, gradients_of_rows, own_logits, shares


def draw(examples, candidates, dtype):
    random = np.random.default_rng(candidates)
    logits, biases, own = (random.normal(size=shape) * 5 for shape in ((examples, candidates), candidates, examples))
    logits[0, : candidates - 1] = -np.inf  # candidates that do not count
    own[-1] = 30.0  # the target's is the highest
    return [array.astype(dtype) for array in (logits, biases, own)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("examples, candidates", [pytest.param(1, 1, marks=pytest.mark.big),
                                                 pytest.param(5, 300, marks=pytest.mark.big), (2, 7)])
def test_gpu_against_the_definition(gpu, monkeypatch, examples, candidates, dtype):
    monkeypatch.setattr("kernels.softmax.cuda.LANES", 8)
    logits, biases, own = draw(examples, candidates, dtype)
    there = [gpu.asarray(array) for array in (logits, biases, own)]
    total = exponentials(*there)
    expected = definition.exponentials(logits, biases, own)
    bound = 8 * np.finfo(dtype).eps
    assert there[2].get().tobytes() == own.tobytes()
    np.testing.assert_allclose(there[0].get(), logits, rtol=bound)
    np.testing.assert_allclose(total.get(), expected, rtol=(8 + np.sqrt(candidates)) * np.finfo(dtype).eps)
    assert np.array_equal(there[1].get(), biases)


def test_a_hit_does_not_count(gpu, monkeypatch):
    monkeypatch.setattr("kernels.softmax.cuda.LANES", 4)
    logits, biases, own = draw(3, 5, "float32")
    hit, plain = np.array([4, -1, 2]), [logits.copy(), biases, own.copy()]
    total = exponentials(*(gpu.asarray(array) for array in (logits, biases, own, hit)))
    np.testing.assert_allclose(total.get(), definition.exponentials(*plain, hit), rtol=1e-6)
    assert total.get().tolist() != exponentials(*(gpu.asarray(array) for array in (logits, biases, own))).get().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_other_parts_against_the_definition(gpu, monkeypatch, dtype):
    """One rounding more for each exp and log (2 ULPs), and sums in float64: the loss's terms cancel, hence atol."""
    monkeypatch.setattr("kernels.softmax.cuda.LANES", 4)
    n, d, eps = 5, 3, np.finfo(dtype).eps
    hidden, weights, dhidden = np.random.default_rng(1).normal(size=(3, n, d)).astype(dtype)
    biases, own, scale = np.random.default_rng(2).normal(size=(3, n)).astype(dtype)
    total = (1 + np.exp(own)).astype(dtype)
    there = [gpu.asarray(array) for array in (hidden, weights, dhidden, biases, own, scale, total)]
    np.testing.assert_allclose(own_logits(there[0], there[1], there[3]).get(), own_logits(hidden, weights, biases),
                               rtol=0, atol=16 * eps)
    found, expected = shares(there[6], there[4], there[5]), shares(total, own, scale)
    for ours, theirs in zip(found, expected):
        np.testing.assert_allclose(ours.get(), theirs, rtol=0, atol=64 * eps)
    _, share, down = expected
    found = gradients_of_rows(there[2], there[0], there[1], gpu.asarray(share), gpu.asarray(down))
    expected = gradients_of_rows(dhidden, hidden, weights, share, down)
    for ours, theirs in zip((there[2], *found), (dhidden, *expected)):
        assert ours.get().tobytes() == theirs.tobytes()  # each operation rounds once


def test_nan_is_not_swallowed(gpu, monkeypatch):
    monkeypatch.setattr("kernels.softmax.cuda.LANES", 4)
    logits, biases, own = draw(3, 5, "float32")
    logits[1, 2] = np.nan
    total = exponentials(*(gpu.asarray(array) for array in (logits, biases, own)))
    assert np.isnan(total.get()).tolist() == [False, True, False]


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="own"):
        exponentials(np.zeros((3, 4)), np.zeros(4), np.zeros(4))
