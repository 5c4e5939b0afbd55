"""Kernel functions: Numba's bits are the definition's, whatever the block; exp within two ULP; the nearest samples."""

import numpy as np
import pytest

from kernels.svm import fast
from kernels.svm.definition import KINDS, KernelFunction, exponential, kernel_row
from kernels.svm.nearest import find_nearest, merge_nearest


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("samples, width", [(1, 1), (63, 5), (64, 3), (130, 17)])
def test_fast_is_the_definition(kind, samples, width):
    rng, kernel = np.random.default_rng(samples), KernelFunction(kind, 0.3, 4, 0.7)
    rows, vectors = rng.standard_normal((samples, width)), rng.standard_normal((2, width))
    found, starts = np.full((2, samples), np.nan), np.array([0, samples // 2])
    fast.fill_kernel_rows(*fast.numbers_of(kernel), vectors, np.array([1, 0]), fast.in_blocks(rows), starts, samples,
                          found)
    for row, start, vector in zip(found, starts, vectors):
        expected = kernel_row(kernel, vector, rows)
        assert row[start:].tobytes() == expected[start:].tobytes() and np.isnan(row[:start]).all()
        assert fast.kernel_value(*fast.numbers_of(kernel), vector, rows[-1]) == expected[-1]


@pytest.mark.parametrize("samples, count", [(0, 3), (1, 1), (7, 9), (64, 64), (301, 20), (301, 1)])
@pytest.mark.parametrize("kept", [False, True])
def test_the_nearest_samples_are_those_of_a_sort_whoever_looks_for_them(samples, count, kept):
    rng = np.random.default_rng(samples + count)
    errors, ids = rng.integers(-9, 10, samples) / 4, rng.permutation(2 * samples)[:samples]  # many are equal
    state, slots = rng.integers(0, 4, samples).astype(np.uint8), rng.integers(-1, 2, 2 * samples if kept else 0)
    able = slots[ids] < 0 if kept else np.full(samples, True)
    expected = np.full((2, count, 2), np.inf)
    for end, (sign, bit) in enumerate([(1, fast.GROWS), (-1, fast.SHRINKS)]):
        places = np.flatnonzero(able & (state & bit > 0))
        places = places[np.lexsort([ids[places], sign * errors[places]])][:count]
        expected[end, :len(places)] = np.column_stack([sign * errors[places], ids[places]])
    assert find_nearest(errors, state, ids, slots, samples, count).tobytes() == expected.tobytes()
    ranks = [find_nearest(errors[r::3], state[r::3], ids[r::3], slots, len(errors[r::3]), count) for r in range(3)]
    assert merge_nearest(np.array(ranks)).tobytes() == expected.tobytes()


def test_exp_is_that_of_the_c_library_but_for_two_ulp():
    x = -np.concatenate([np.linspace(0, 700, 70_001), np.logspace(-20, 0, 1001)])
    expected = np.exp(x)
    assert (np.abs(exponential(x) - expected) <= 2 * np.spacing(expected)).all()
    assert exponential(np.array([0.0, -709.0, -1e300])).tolist() == [1.0, 0.0, 0.0]
