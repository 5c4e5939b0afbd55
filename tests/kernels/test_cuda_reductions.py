"""Norms and the check for NaN on a GPU: the definitions' bits, and one wait for all."""

import numpy as np
import pytest

from kernels.reductions import (
    all_finite, definition, infinite_each, sum_of_squares_per_row, sum_of_squares_per_row_each,
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (1, 1), (5, 1), (3, 3), (2, 7),
                                   *(pytest.param(shape, marks=pytest.mark.big)
                                     for shape in [(4, 255), (3, 256), (2, 257), (2, 1000)])])
def test_sums_of_squares_hold_the_definition(gpu, shape, dtype):
    x = np.random.default_rng(5).normal(size=shape) * 2.0 ** np.arange(shape[1] % 40 or 1)[-1]
    x = (x * 10.0 ** np.random.default_rng(6).integers(-9, 9, shape)).astype(dtype)
    ours = sum_of_squares_per_row(gpu.asarray(x))
    assert not isinstance(ours, np.ndarray)
    assert ours.get().tobytes() == definition.sum_of_squares_per_row(x).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_matrices_sums_are_each_the_definitions(gpu, dtype):
    shapes = [(2, 3), (1, 1), (0, 4), (3, 17), (4, 0), (1, 5), (2, 2), (1, 7), (5, 1), (1, 12)]
    arrays = [np.random.default_rng(n).normal(size=shape).astype(dtype) for n, shape in enumerate(shapes)]
    expected = np.concatenate([definition.sum_of_squares_per_row(x) for x in arrays])
    assert sum_of_squares_per_row_each([gpu.asarray(x) for x in arrays]).get().tobytes() == expected.tobytes()
    assert sum_of_squares_per_row_each(arrays).tobytes() == expected.tobytes()


def test_infinity_and_nan_are_found_where_they_are(gpu):
    arrays = [np.ones((3, 50)), np.ones(7), np.ones((2, 2), np.float32), np.zeros(0), np.ones(40, np.float32)]
    arrays[1][6], arrays[4][39] = np.nan, -np.inf
    there = [gpu.asarray(array) for array in arrays]
    expected = [0, 1, 0, 0, 1]
    assert infinite_each(there).get().tolist() == expected == [not all_finite(array) for array in there]


def test_all_are_waited_for_once(gpu):
    standin = gpu.__dict__.get("standin") or pytest.skip("only the stand-in counts transfers")
    there = [gpu.ones(5, np.float32) for _ in range(4)]
    with standin.counting() as count:
        infinite_each(there).get()
    assert [one.kind for one in count.all] == ["to_host"]
