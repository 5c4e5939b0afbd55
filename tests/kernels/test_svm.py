"""Kernel functions: Numba's bits are the definition's, whatever the block; exp within two ULP of the C library's."""

import numpy as np
import pytest

from kernels.svm import fast
from kernels.svm.definition import KINDS, KernelFunction, exponential, kernel_row


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


def test_exp_is_that_of_the_c_library_but_for_two_ulp():
    x = -np.concatenate([np.linspace(0, 700, 70_001), np.logspace(-20, 0, 1001)])
    expected = np.exp(x)
    assert (np.abs(exponential(x) - expected) <= 2 * np.spacing(expected)).all()
    assert exponential(np.array([0.0, -709.0, -1e300])).tolist() == [1.0, 0.0, 0.0]
