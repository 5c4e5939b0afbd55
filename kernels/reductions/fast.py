"""Sums of squares and the check for NaN in Numba: one pass. Same bits as ``definition``."""

import numpy as np
from numba import njit

from kernels.reductions.definition import LANES

BLOCK = 4096  # elements between two looks at the verdict of all_finite: long enough for the loop to run in vectors


def sum_of_squares_per_row(x):
    """See ``definition.sum_of_squares_per_row``."""
    sums = np.empty(len(x), np.float64)
    _sum_of_squares(x, sums)
    return sums


def all_finite(x) -> bool:
    """See ``definition.all_finite``. x: one axis, contiguous."""
    return _all_finite(x)


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_of_squares(x, sums):
    width = x.shape[1]
    whole = width - width % LANES
    used = LANES
    while used // 2 >= width and used > 1:
        used //= 2  # the other lanes would stay 0 in narrow rows
    lanes = np.empty(LANES, np.float64)
    for i in range(len(x)):
        row = x[i]
        lanes[:used] = 0.0
        for start in range(0, whole, LANES):
            for lane in range(LANES):
                element = np.float64(row[start + lane])
                lanes[lane] += element * element
        for j in range(whole, width):
            element = np.float64(row[j])
            lanes[j - whole] += element * element
        half = used // 2
        while half:
            for lane in range(half):
                lanes[lane] += lanes[lane + half]
            half //= 2
        sums[i] = lanes[0]


@njit(cache=True, nogil=True, error_model="numpy")
def _all_finite(x):
    for start in range(0, len(x), BLOCK):
        block = x[start : start + BLOCK]
        bad = 0
        for j in range(len(block)):
            bad += block[j] - block[j] != 0  # inf - inf and NaN - NaN are NaN
        if bad:
            return False
    return True
