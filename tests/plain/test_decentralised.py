"""EASGD, gossip and local steps, all replicas in one array: what they keep, exactly, and how fast replicas meet."""

import math

import numpy as np
import pytest

from refimpl.plain.without_barriers.decentralised import easgd, gossip, local_steps, partner, stacked


def still(x):
    """A step with g = 0."""
    return x


def whole_numbers(seed, replicas, size=3):
    """Multiples of 2**20, as float64: a few halvings and their sums are exact."""
    return np.random.default_rng(seed).integers(-1000, 1000, (replicas, size)) * 2.0**20


def kept(total, alpha, rounds=5):
    """Whether Σ x_i + x̃ stays the same numbers, for 1 to 9 replicas. total: what adds up their differences."""
    for replicas in range(1, 10):
        x, centre = whole_numbers(replicas, replicas), whole_numbers(99, 1)[0]
        before = x.sum(axis=0) + centre
        for _ in range(rounds):
            x, centre = easgd(x, centre, still, alpha, total)
        if (x.sum(axis=0) + centre != before).any():
            return False
    return True


@pytest.mark.parametrize("alpha", [0.5, 0.25, 0.125])
def test_easgd_keeps_the_sum_with_the_centre(alpha):
    assert kept(stacked, alpha)
    assert not kept(lambda d: stacked(d) / len(d), alpha)  # the centre moves by the mean: a classic bug


def test_easgd_is_its_equation():
    """Both move by what was between them before the step."""
    x, centre = easgd(np.array([[4.0], [8.0]]), np.array([2.0]), lambda x: x - 0.5 * np.array([[2.0], [-4.0]]), 0.25, stacked)
    assert x.tolist() == [[4 - 1 - 0.5], [8 + 2 - 1.5]] and centre.tolist() == [2 + 0.5 + 1.5]


def meetings(replicas, step, partners=partner):
    """Whom each replica meets."""
    return [partners(rank, replicas, step) for rank in range(replicas)]


def a_round(x, partners=partner, first=0):
    """x after two steps of gossip: each has met both neighbours."""
    for step in (first, first + 1):
        x = gossip(x, x[meetings(len(x), step, partners)], still)
    return x


def test_partners_meet_each_other_and_by_turns_all_neighbours():
    for replicas in range(1, 12):
        for step in range(3):
            met = meetings(replicas, step)
            assert [met[other] for other in met] == list(range(replicas))
            assert sum(other == rank for rank, other in enumerate(met)) == replicas % 2
        pairs = {frozenset((rank, other)) for step in (0, 1) for rank, other in enumerate(meetings(replicas, step))}
        assert {frozenset((rank, rank + 1)) for rank in range(replicas - 1)} <= pairs


def test_gossip_keeps_the_mean_exactly():
    for replicas in range(1, 10):
        x = whole_numbers(replicas, replicas)
        before = x.sum(axis=0)
        for step in range(8):
            x = a_round(x, first=step)
            assert (x.sum(axis=0) == before).all()
    one_sided = gossip(x, x[[(rank + 1) % 9 for rank in range(9)]] * [1.0, 1.0, 0.5], still)
    assert (one_sided.sum(axis=0) != before).any()


def falls_by(replicas, partners=partner):
    """Return (λ₂ of a round, the factor by which the variance on its eigenvector falls in a round)."""
    values, vectors = np.linalg.eig(a_round(np.eye(replicas), partners))
    second = np.argsort(-abs(values))[1]
    x = vectors[:, second].real
    return abs(values[second]), a_round(x, partners).var() / x.var()


@pytest.mark.parametrize("replicas", [5, 6, 7, 8, 10, 12])
def test_gossip_shrinks_the_second_eigenvector(replicas):
    second, factor = falls_by(replicas)
    assert factor == pytest.approx(second**2, rel=1e-9) and second < 0.999
    if replicas % 2 == 0:  # pairs of neighbours that mix by halves: a ring of replicas / 2
        assert second == pytest.approx(math.cos(2 * math.pi / replicas) ** 2, rel=1e-9)
    assert falls_by(replicas, lambda rank, ranks, step: partner(rank, ranks, 0))[0] == pytest.approx(1)  # always the same


def local(x, gradients, rate, steps, examples):
    """Local steps with gradients g_i x of each replica."""
    return local_steps(x, lambda x: x - rate * gradients * x, steps, examples, stacked)


def test_one_local_step_with_equal_shares_is_the_synchronous_one():
    for replicas in (1, 2, 4, 8):
        x, gradients = np.ones((replicas, 1)), np.arange(replicas).reshape(-1, 1) / 4.0
        for examples in (1.0, 8.0):
            found = local(x, gradients, 0.5, 1, np.full((replicas, 1), examples))
            assert found.tolist() == [1 - 0.5 * gradients.mean()]
        assert replicas == 1 or local(x, gradients, 0.5, 2, np.ones((replicas, 1))) != (1 - 0.5 * gradients.mean()) ** 2


def test_local_steps_weigh_by_examples():
    x, examples = np.array([[1.0], [1.0], [1.0]]), np.array([[1.0], [2.0], [5.0]])
    gradients = np.array([[0.0], [1.0], [0.5]])
    assert local(x, gradients, 0.5, 2, examples).tolist() == [(1 * 1 + 2 * 0.25 + 5 * 0.75**2) / 8]
    assert local(x, 0 * gradients, 0.5, 3, examples).tolist() == [1.0]
