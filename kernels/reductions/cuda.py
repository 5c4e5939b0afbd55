"""Reductions for clipping and the check for NaN on a GPU: one pass. Same bits as ``definition``."""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_of_many, each_row, helper
from kernels.cuda.many import MANY
from kernels.reductions.definition import lanes_of


def sum_of_squares_per_row_each(arrays):
    """Return the sums of all rows of several matrices of one dtype, one after the other: MANY matrices in a launch."""
    xp, first = array_module(*arrays), 0
    sums = xp.zeros(sum(map(len, arrays)), np.float64)
    arrays = [xp.ascontiguousarray(x) for x in arrays]
    for number in range(0, len(arrays), MANY):
        some = arrays[number:number + MANY]
        rows, some = [len(x) for x in some], some + [some[0][:0]] * (MANY - len(some))
        ends = np.cumsum(rows + [0] * (MANY - len(rows))).tolist()
        lanes = max(lanes_of(x.shape[1]) for x in some)  # lanes past a row's end add zeros, which change no bit
        squares(ends[-1], lanes, *ends, *(x.shape[1] for x in some), *some, first, sums)
        first += ends[-1]
    return sums


def infinite_each(arrays):
    """Return a flag for each array, 1 if it is not finite: (n,) int64, on the GPU, without waiting. Local."""
    xp = array_module(*arrays)
    bad = xp.zeros(len(arrays), np.int64)
    quick = [(array.size, xp.ascontiguousarray(array), number) for number, array in enumerate(arrays)
             if array.dtype.char in "fd"]
    note_infinite(quick, bad)
    for number, array in enumerate(arrays):
        if array.dtype.char not in "fd":
            bad[number] = ~xp.isfinite(array).all()
    return bad


@helper
def part_of_row(row, lane, lanes, width, x):
    """Return the sum of the squares of elements lane, lane + lanes, lane + 2 lanes, ... of a row, in float64."""
    total = np.float64(0)
    for column in range(lane, width, lanes):
        element = np.float64(x[row * width + column])
        total += element * element
    return total


def note_sum(row, total, e0, e1, e2, e3, e4, e5, e6, e7, w0, w1, w2, w3, w4, w5, w6, w7, x0, x1, x2, x3, x4, x5, x6, x7,
             first, sums):
    """Write a row's sum."""
    sums[first + row] = total


@each_row(note_sum)
def squares(row, lane, lanes, e0, e1, e2, e3, e4, e5, e6, e7, w0, w1, w2, w3, w4, w5, w6, w7, x0, x1, x2, x3, x4, x5,
            x6, x7, first, sums):
    """Return a lane's part of a row's sum of squares. The k-th matrix ends before row ek and is wk wide."""
    if row < e0:
        return part_of_row(row, lane, lanes, w0, x0)
    if row < e1:
        return part_of_row(row - e0, lane, lanes, w1, x1)
    if row < e2:
        return part_of_row(row - e1, lane, lanes, w2, x2)
    if row < e3:
        return part_of_row(row - e2, lane, lanes, w3, x3)
    if row < e4:
        return part_of_row(row - e3, lane, lanes, w4, x4)
    if row < e5:
        return part_of_row(row - e4, lane, lanes, w5, x5)
    if row < e6:
        return part_of_row(row - e5, lane, lanes, w6, x6)
    return part_of_row(row - e6, lane, lanes, w7, x7)


@each_of_many(own=2)
def note_infinite(place, x, which, bad):
    """Write 1 if an element is infinite or NaN. All threads that write, write the same value."""
    if not math.isfinite(x[place]):
        bad[which] = 1
