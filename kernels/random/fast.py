"""Counter-based random numbers in Numba: one pass without temporary arrays. Same bits as ``definition``."""

import math

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.random.definition import GOLDEN, MIX

STEP, MIX_FIRST, MIX_SECOND = np.uint64(GOLDEN), np.uint64(MIX[0]), np.uint64(MIX[1])


def random_bits(key, count, start=0):
    """Return elements ``start`` to ``start + count`` of sequence ``key`` (see ``definition.random_bits``). Local."""
    bits = np.empty(count, np.uint64)
    _fill_bits(before(key, start), bits)
    return bits


def uniform(key, count, start=0):
    numbers = np.empty(count, np.float64)
    _fill_uniform(before(key, start), numbers)
    return numbers


def dropout_scale(key, shape, keep, dtype, first=0, width=None):
    scale = np.empty(math.prod(shape), dtype)
    columns = shape[-1] if width is not None else max(1, scale.size)
    _fill_dropout(before(key, first), np.uint64(round(keep * 2**24)), scale.dtype.type(1 / keep),
                  scale.reshape(-1, max(1, columns)), np.uint64(width or columns))
    return scale.reshape(shape)


def before(key, start):
    """Return the counter one step before element ``start``: element i is mix(before + (i + 1) * GOLDEN)."""
    return np.uint64((key + start * GOLDEN) % 2**64)


@inlined
def random_bits_of(before, i):
    """Return element i of a sequence, for other kernels. before: the result of ``before``."""
    z = before + np.uint64(i + 1) * STEP
    z = (z ^ (z >> np.uint64(30))) * MIX_FIRST
    z = (z ^ (z >> np.uint64(27))) * MIX_SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def _fill_bits(before, bits):
    for i in range(len(bits)):
        bits[i] = random_bits_of(before, i)


@compiled
def _fill_uniform(before, numbers):
    for i in range(len(numbers)):
        numbers[i] = np.float64(random_bits_of(before, i) >> np.uint64(11)) * 2.0**-53


@compiled
def _fill_dropout(before, threshold, kept, scale, width):
    rows, columns = scale.shape
    for row in range(rows):
        first = before + np.uint64(row) * width * STEP
        for i in range(columns):
            bits = random_bits_of(first, i) >> np.uint64(40)
            scale[row, i] = kept if bits < threshold else kept - kept
