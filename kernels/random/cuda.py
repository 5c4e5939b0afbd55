"""Counter-based random numbers on a GPU: one launch without temporary arrays. Same bits as ``definition``."""

import math

import numpy as np

from kernels.cuda import each_element, helper
from kernels.random.fast import before, random_bits_of

FRACTION = 2.0**-53
bits_of = helper(getattr(random_bits_of, "py_func", random_bits_of))
"""``random_bits_of`` on a GPU. Where Numba's compiler is off it has no ``py_func``."""


def uniform(key, count, start, xp):
    numbers = xp.empty(count, np.float64)
    fill_uniform(1, count, before(key, start), numbers)
    return numbers


def dropout_scale(key, shape, keep, dtype, xp, first=0, width=None):
    scale = xp.empty(shape, dtype)
    kept, size = scale.dtype.type(1 / keep), math.prod(shape)
    rows, columns = (1, size) if width is None else (size // max(1, shape[-1]), shape[-1])
    fill_dropout(rows, columns, before(key, first), np.uint64(round(keep * 2**24)), kept, kept - kept, scale, columns,
                 width or columns)
    return scale


@each_element
def fill_uniform(row, place, first, numbers):
    """Write a number in [0, 1)."""
    numbers[place] = np.float64(bits_of(first, place) >> np.uint64(11)) * FRACTION


@each_element
def fill_dropout(row, column, first, threshold, kept, dropped, scale, columns, width):
    """Write 1 / keep if the top 24 bits are below the threshold, else 0."""
    bits = bits_of(first, row * width + column) >> np.uint64(40)
    scale[row * columns + column] = kept if bits < threshold else dropped
