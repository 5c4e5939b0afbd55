"""Packed levels, and signs with their means, in Numba: one pass without temporary arrays. Same bits as ``definition``.
"""

import numpy as np

from kernels.compiled import compiled


def encode_signs(values, packed):
    """See ``definition.encode_signs``."""
    means = np.empty(2, np.float32)
    _encode_signs(values, packed, means)
    return means


def pack(levels, bits, packed):
    """See ``definition.pack``."""
    packed[...] = 0
    _pack(levels, bits, packed)


def look_up(packed, bits, table, out):
    """See ``definition.look_up``."""
    if bits == 1:
        _look_up_signs(packed, table[0], table[1], out)
    else:
        _look_up(packed, bits, table, out)


@compiled
def _encode_signs(values, packed, means):
    below = above = -0.0  # which adds nothing, not even to another -0.0
    count = 0
    for byte in range(len(packed)):
        bits = 0
        for i in range(8 * byte, min(8 * byte + 8, len(values))):
            value = np.float64(values[i])
            sign = value >= 0
            above += value if sign else -0.0  # without a branch: nobody can predict a sign
            below += -0.0 if sign else value
            count += sign
            bits = 2 * bits + sign
        bits <<= max(0, 8 * byte + 8 - len(values))
        packed[byte] = bits
    others = len(values) - count
    means[0] = np.float32(below / others) if others else np.float32(0)
    means[1] = np.float32(above / count) if count else np.float32(0)


@compiled
def _pack(levels, bits, packed):
    for i in range(len(levels)):
        for j in range(bits):
            place = i * bits + j
            packed[place >> 3] |= (levels[i] >> j & 1) << (7 - (place & 7))


@compiled
def _look_up_signs(packed, below, above, out):
    for i in range(len(out)):
        out[i] = above if packed[i >> 3] >> (7 - (i & 7)) & 1 else below


@compiled
def _look_up(packed, bits, table, out):
    for i in range(len(out)):
        level = 0
        for j in range(bits):
            place = i * bits + j
            level |= (packed[place >> 3] >> (7 - (place & 7)) & 1) << j
        out[i] = table[level]
