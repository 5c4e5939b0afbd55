"""Gradients as integers with a power of two as scale, in Numba: one pass without temporary arrays. Sums are exact.

The plain version: ``plain.encoding.codecs.Integers``.
"""

import numpy as np

from kernels.compiled import compiled
from kernels.random.fast import before, random_bits_of


def encode(values, exponent, key, out):
    """Write floor(x 2^exponent + u), u uniform, of the sequence ``key``: float32 -> out, integers. Local.

    values, out: of one shape, contiguous.  Its expectation is x 2^exponent. No integer may overflow.
    """
    _encode(values.reshape(-1), 2.0**exponent, before(key, 0), out.reshape(-1))


def decode(message, exponent, out):
    """Write m 2^-exponent, rounded once: integers -> out, float32, of the same shape, contiguous. Local."""
    _decode(message.reshape(-1), 2.0**-exponent, out.reshape(-1))


@compiled
def _encode(values, scale, before, out):
    for i in range(len(out)):
        u = np.float64(random_bits_of(before, i) >> np.uint64(11)) * 2.0**-53
        out[i] = np.int64(np.floor(np.float64(values[i]) * scale + u))


@compiled
def _decode(message, scale, out):
    for i in range(len(out)):
        out[i] = np.float32(np.float64(message[i]) * scale)
