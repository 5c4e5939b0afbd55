"""Sums of squares and the check for NaN in Numba: one pass. Same bits as ``definition``."""

import numpy as np

from kernels.compiled import compiled
from kernels.reductions.definition import lanes_of

BLOCK = 4096  # elements between two checks in all_finite: enough for a loop in vector operations


def sum_of_squares_per_row(x):
    sums = np.empty(len(x), np.float64)
    _sum_of_squares(x, np.empty(lanes_of(x.shape[1]), np.float64), sums)
    return sums


@compiled
def _sum_of_squares(x, lanes, sums):
    for i in range(len(x)):
        lanes[:] = 0.0
        for start in range(0, x.shape[1], len(lanes)):
            part = x[i, start : start + len(lanes)]
            for lane in range(len(part)):
                element = np.float64(part[lane])
                lanes[lane] += element * element
        lower = lanes
        while len(lower) > 1:
            half = len(lower) // 2
            lower, upper = lower[:half], lower[half:]
            for lane in range(half):
                lower[lane] += upper[lane]
        sums[i] = lower[0]


@compiled
def all_finite(x) -> bool:
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        bad = 0
        for j in range(len(block)):
            bad += block[j] - block[j] != 0  # inf - inf and NaN - NaN are NaN
        if bad:
            return False
    return True
