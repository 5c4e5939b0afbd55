"""Sums of squares and finiteness: the bits of each version, exact sums, what must not change them, one wait for all."""

from fractions import Fraction

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.random import key_of, uniform
from kernels.reductions import (
    all_finite, definition, infinite_each, sum_of_squares_per_row, sum_of_squares_per_row_each,
)

WIDTHS = [0, 1, 2, 3, 15, 16, 17, 127, 128, 129, 255, 256, 257, 511, 513, 1000]


def draw(*shape, dtype="float32"):
    u = uniform(key_of("squares", *shape), int(np.prod(shape))) - 0.5
    return (u * 2.0 ** np.round(30 * u)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [pytest.param(w, marks=[pytest.mark.big] * (w > 16)) for w in WIDTHS])
def test_sums_hold_the_definition(place, width, dtype):
    for count in (0, 1, 3):
        x = draw(count, width, dtype=dtype)
        expected = definition.sum_of_squares_per_row(x)
        assert expected.dtype == np.float64 and expected.shape == (count,)
        for layout in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
            assert to_numpy(sum_of_squares_per_row(place.asarray(layout))).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_several_matrices_sums_are_each_the_definitions(place, dtype):
    shapes = [(2, 3), (1, 1), (0, 4), (3, 17), (4, 0), (1, 5), (2, 2), (1, 7), (5, 1), (1, 12)]
    arrays = [draw(*shape, dtype=dtype) for shape in shapes]
    expected = np.concatenate([definition.sum_of_squares_per_row(x) for x in arrays])
    assert to_numpy(sum_of_squares_per_row_each([place.asarray(x) for x in arrays])).tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_error_stays_within_the_bound_of_its_order(width):
    """Squares of float32 are exact in float64; an element takes part in at most width / lanes + 8 additions."""
    x = draw(4, width)
    lanes = definition.lanes_of(width)
    bound = Fraction(width // lanes + lanes.bit_length() + 1, 2**53)
    for row, total in zip(x, sum_of_squares_per_row(x)):
        exact = sum(Fraction(float(e)) ** 2 for e in row)
        assert abs(Fraction(float(total)) - exact) <= bound * exact * Fraction(1001, 1000)  # 1001: terms of order u**2


def test_a_row_has_one_sum_whoever_stores_it():
    x = draw(10, 129)
    whole = sum_of_squares_per_row(x)
    assert all(sum_of_squares_per_row(x[i : i + 1])[0] == whole[i] for i in range(10))
    room = np.empty(x.size + 1, np.float32)
    room[1:] = x.ravel()
    assert sum_of_squares_per_row(room[1:].reshape(x.shape)).tobytes() == whole.tobytes()


def test_an_array_that_is_no_matrix_is_refused():
    x = draw(7, 5, 3)
    with pytest.raises(ValueError, match="two axes"):
        sum_of_squares_per_row(x)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
def test_one_bad_element_is_found_wherever_it_hides(value, dtype):
    for size in (1, 7, 4096, 4097, 9001):
        for place in {0, size // 2, size - 1}:
            x = np.full(size, np.finfo(dtype).max, dtype)
            assert all_finite(x)
            x[place] = value
            assert not all_finite(x) and not all_finite(x.reshape(1, -1))
            assert not all_finite(np.repeat(x, 2)[::2])


def test_nothing_and_the_extremes_are_finite():
    assert all_finite(np.empty((0, 3), np.float32)) and all_finite(np.array(1.0))
    assert all_finite(np.array([5e-324, -0.0, np.finfo(float).max, -np.finfo(float).max]))


def test_infinity_and_nan_are_found_where_they_are(gpu):
    arrays = [np.ones((3, 50)), np.ones(7), np.ones((2, 2), np.float32), np.zeros(0), np.ones(40, np.float32)]
    arrays[1][6], arrays[4][39] = np.nan, -np.inf
    there = [gpu.asarray(array) for array in arrays]
    expected = [0, 1, 0, 0, 1]
    assert infinite_each(there).get().tolist() == expected == [not all_finite(array) for array in there]


def test_all_are_waited_for_once(gpu, standin):
    there = [gpu.ones(5, np.float32) for _ in range(4)]
    with standin.counting() as count:
        infinite_each(there).get()
    assert [one.kind for one in count.all] == ["to_host"]
