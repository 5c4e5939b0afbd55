"""Sums of squares and finiteness: fast and defined bits, exact sums, and what must not change them."""

from fractions import Fraction

import numpy as np
import pytest

from kernels.random import key_of, uniform
from kernels.reductions import all_finite, definition, fast, sum_of_squares_per_row

WIDTHS = [0, 1, 2, 3, 15, 16, 17, 127, 128, 129, 255, 256, 257, 511, 513, 1000]


def draw(*shape, dtype="float32"):
    u = uniform(key_of("squares", *shape), int(np.prod(shape))) - 0.5
    return (u * 2.0 ** np.round(30 * u)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", WIDTHS)
def test_fast_sums_hold_the_definition(width, dtype):
    for count in (0, 1, 13):
        x = draw(count, width, dtype=dtype)
        expected = definition.sum_of_squares_per_row(x)
        assert expected.dtype == np.float64 and expected.shape == (count,)
        for layout in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
            assert fast.sum_of_squares_per_row(layout).tobytes() == expected.tobytes()
            assert sum_of_squares_per_row(layout).tobytes() == expected.tobytes()


@pytest.mark.parametrize("width", WIDTHS)
def test_small_integers_sum_exactly(width):
    x = np.arange(3 * width, dtype=np.float32).reshape(3, width) % 97 - 48
    assert sum_of_squares_per_row(x).tolist() == (x.astype(np.int64) ** 2).sum(axis=1).tolist()


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
