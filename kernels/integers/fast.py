"""Integers with a power of two as scale in Numba: one pass without temporary arrays. Same bits as ``definition``."""

import numpy as np

from kernels.compiled import compiled
from kernels.random.fast import before, random_bits_of


def encode(values, exponent, key, out):
    _encode(values, 2.0**exponent, before(key, 0), out)


def decode(message, exponent, out):
    _decode(message, 2.0**-exponent, out)


@compiled
def _encode(values, scale, before, out):
    for i in range(len(out)):
        u = np.float64(random_bits_of(before, i) >> np.uint64(11)) * 2.0**-53
        out[i] = np.int64(np.floor(np.float64(values[i]) * scale + u))


@compiled
def _decode(message, scale, out):
    for i in range(len(out)):
        out[i] = np.float32(np.float64(message[i]) * scale)
