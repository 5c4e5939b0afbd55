"""Sampled softmax against its formula, one example at a time, and at the ends of the number range."""

import numpy as np
import pytest

from models.sampled_softmax import sampled_softmax


def arguments(n=6, s=9, d=4, seed=0, size=1.0):
    """Return random arguments; example 1 hits candidate 3, example 4 candidate 0."""
    random = np.random.default_rng(seed)

    def normal(*shape):
        return size * random.normal(size=shape)

    hit = np.full(n, -1)
    hit[1:2], hit[4:5] = 3, 0
    return [normal(n, d), normal(n, d), normal(n), normal(s, d), normal(s), hit, random.random(n)]


def by_formula(hidden, target_weights, target_biases, candidate_weights, candidate_biases, hit, scale):
    """Return the loss, one example after the other."""
    loss = 0.0
    for e, h in enumerate(hidden):
        logits = [h @ target_weights[e] + target_biases[e]]
        logits += [h @ w + b for c, (w, b) in enumerate(zip(candidate_weights, candidate_biases)) if c != hit[e]]
        loss += scale[e] * (np.log(np.sum(np.exp(logits))) - logits[0])
    return loss


def test_loss_is_the_formula():
    """Sums of fewer than 100 roundings of terms below 2**5."""
    loss, _ = sampled_softmax(*arguments())
    assert abs(loss - by_formula(*arguments())) <= 100 * 2**5 * 2.0**-53


@pytest.mark.parametrize("place", range(5))
def test_gradients_are_the_derivatives(place):
    from models.gradient_check import ridders

    given = arguments()
    direction = np.random.default_rng(1).normal(size=given[place].shape)

    def loss(h):
        return by_formula(*(a + h * direction if k == place else a for k, a in enumerate(given)))

    gradient = sampled_softmax(*given)[1][place]
    derivative, tolerance = ridders(loss)
    assert abs(np.vdot(gradient, direction) - derivative) <= tolerance < 1e-8


def test_a_removed_hit_has_no_probability_at_all():
    """Its bias may be anything: nothing changes, to the bit, and it gets gradient from the other examples only."""
    given = arguments(n=1, s=3)
    given[5] = np.array([1])
    loss, (_, _, _, candidate_weights, candidate_biases) = sampled_softmax(*given)
    assert candidate_biases[1] == 0 and not candidate_weights[1].any()
    given[4] = given[4] + np.array([0.0, 50.0, 0.0])
    assert sampled_softmax(*given)[0] == loss


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_large_logits_neither_overflow_nor_lose_the_loss(dtype):
    given = [a if a.dtype == np.int64 else a.astype(dtype) for a in arguments(size=100.0)]
    loss, gradients = sampled_softmax(*given)
    assert np.isfinite(loss) and loss >= 0
    assert all(np.isfinite(a).all() for a in gradients)
    assert all(a.dtype == dtype for a in gradients)
