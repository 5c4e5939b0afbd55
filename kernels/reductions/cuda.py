"""Reductions behind clipping and the check for NaN on a GPU: one pass. Same bits as ``definition``."""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_element, each_row
from kernels.reductions.definition import lanes_of


def sum_of_squares_per_row(x):
    """See ``definition.sum_of_squares_per_row``."""
    xp, (rows, width) = array_module(x), x.shape
    sums = xp.zeros(rows, np.float64) if width == 0 else xp.empty(rows, np.float64)
    squares(rows, lanes_of(width) if width else 0, width, xp.ascontiguousarray(x), sums)
    return sums


def infinite_each(arrays):
    """Return a flag of each array, 1 if it is not finite: (n,) int64, on the GPU. Nobody waits."""
    xp = array_module(*arrays)
    bad = xp.zeros(len(arrays), np.int64)
    for number, array in enumerate(arrays):
        if array.dtype.char in "fd":
            note_infinite(1, array.size, xp.ascontiguousarray(array), bad[number:])
        else:
            bad[number] = ~xp.isfinite(array).all()
    return bad


def finite_each(arrays) -> list[bool]:
    """Return of each array whether it is finite. The host waits once, for all of them."""
    return [flag == 0 for flag in infinite_each(arrays).get().tolist()]


def note_sum(row, total, width, x, sums):
    """Write a row's sum."""
    sums[row] = total


@each_row(note_sum)
def squares(row, lane, lanes, width, x, sums):
    """Return the sum of the squares of elements lane, lane + lanes, lane + 2 lanes, ... of a row, in float64."""
    total = np.float64(0)
    for column in range(lane, width, lanes):
        element = np.float64(x[row * width + column])
        total += element * element
    return total


@each_element
def note_infinite(row, place, x, bad):
    """Write 1 if an element is infinite or NaN: whoever writes, writes the same."""
    if not math.isfinite(x[place]):
        bad[0] = 1
