"""Counter-based random numbers on a GPU: one launch, nothing in between. Same bits as ``definition``."""

import math

import numpy as np

from kernels.cuda import each_element, helper
from kernels.random.fast import MIX_FIRST, MIX_SECOND, STEP, before

FRACTION = 2.0**-53


def uniform(key, count, start, xp):
    """See ``definition.uniform``."""
    numbers = xp.empty(count, np.float64)
    fill_uniform(1, count, before(key, start), numbers)
    return numbers


def dropout_scale(key, shape, keep, dtype, xp):
    """See ``definition.dropout_scale``."""
    scale = xp.empty(shape, dtype)
    kept = scale.dtype.type(1 / keep)
    fill_dropout(1, math.prod(shape), before(key, 0), np.uint64(round(keep * 2**24)), kept, kept - kept, scale)
    return scale


@helper
def mixed(first, place):
    """Return the bits of element ``place`` of the sequence that begins after counter ``first``."""
    z = first + np.uint64(place + 1) * STEP
    z = (z ^ (z >> np.uint64(30))) * MIX_FIRST
    z = (z ^ (z >> np.uint64(27))) * MIX_SECOND
    return z ^ (z >> np.uint64(31))


@each_element
def fill_uniform(row, place, first, numbers):
    """Write a number in [0, 1)."""
    numbers[place] = np.float64(mixed(first, place) >> np.uint64(11)) * FRACTION


@each_element
def fill_dropout(row, place, first, threshold, kept, dropped, scale):
    """Write 1 / keep where the top 24 bits are below the threshold, else 0."""
    scale[place] = kept if mixed(first, place) >> np.uint64(40) < threshold else dropped
