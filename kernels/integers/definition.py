"""Plain array code for gradients as integers with a power of two as scale: the oracle. Never optimised."""

import numpy as np

from kernels.random.definition import uniform


def encode(values, exponent, key, out):
    """Write floor(x 2^exponent + u), u uniform, of the sequence ``key``: (n,) float32 -> out (n,) integers.

    Its expectation is x 2^exponent. No integer may overflow.
    """
    out[...] = np.floor(np.ldexp(values.astype(np.float64), exponent) + uniform(key, len(values)))


def decode(message, exponent, out):
    """Write m 2^-exponent, rounded once: (n,) integers -> out (n,) float32."""
    out[...] = np.ldexp(message.astype(np.float64), -exponent)
