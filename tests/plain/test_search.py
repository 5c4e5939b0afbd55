"""The plain partition search against the fast one: the same samples in the same order, the same choice."""

import numpy as np
from hypothesis import given, settings, strategies as st

from refimpl.plain.strategies.search import following, search
from refimpl.plan.partitions.search import PartitionSearch


def both(start, largest, measure):
    """Return what each of the two tried, in order, and chose: [(samples, best), (samples, best)]."""
    fast = PartitionSearch(start, largest)
    while (partitions := fast.propose()) is not None:
        fast.measured(partitions, measure(partitions))
    best, samples, _ = search(start, largest, measure)
    return [(list(samples.items()), best), (list(fast.samples.items()), fast.best())]


sizes = st.tuples(st.integers(1, 64), st.integers(1, 2000))


@settings(max_examples=500)
@given(sizes, st.floats(0.01, 1), st.floats(0, 10), st.floats(0, 0.1), st.floats(0, 0.5), st.integers(0, 2**32))
def test_on_noisy_curves(size, theta0, theta1, theta2, noise, seed):
    def measure(partitions):
        exact = theta0 + theta1 / partitions + theta2 * partitions
        return exact * (1 + noise * np.random.default_rng((seed, partitions)).random())

    plain, fast = both(*size, measure)
    assert plain == fast


@settings(max_examples=500)
@given(sizes, st.integers(1, 4), st.integers(0, 2**32))
def test_on_any_times(size, levels, seed):
    """Few different times, so that many are equal."""
    plain, fast = both(*size, lambda p: float(np.random.default_rng((seed, p)).integers(1, 1 + levels)))
    assert plain == fast


def test_by_hand():
    assert [following(samples, 100) for samples in (
        {8: 3.0}, {8: 3.0, 16: 2.0}, {8: 3.0, 16: 2.0, 32: 2.5}, {8: 3.0, 16: 2.0, 32: 2.5, 4: 3.5}, {1: 1.0, 2: 2.0},
    )] == [16, 32, 4, None, 4]
    best, samples, theta = search(8, 1000, lambda p: 0.100 + 0.240 / p + 0.002 * p)
    assert list(samples) == [8, 16, 4, 11] and best == 11 and np.allclose(theta, (0.1, 0.24, 0.002))


def test_the_comparison_sees_another_walk():
    plain, _ = both(8, 1000, lambda p: 1 + 1 / p)
    _, fast = both(4, 1000, lambda p: 1 + 1 / p)
    assert plain != fast
