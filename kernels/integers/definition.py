"""Plain array code for gradients as integers with a power of two as scale: the oracle. Never optimised."""

from kernels.arrays import array_module
from kernels.random.definition import uniform


def encode(values, exponent, key, out):
    """Write floor(x 2^exponent + u), u of the sequence ``key``: (n,) float32 -> out (n,) integers, without overflow.

    Its expectation is x 2^exponent.
    """
    xp = array_module(values)
    out[...] = xp.floor(xp.ldexp(values.astype(xp.float64), exponent) + uniform(key, len(values), 0, xp))


def decode(message, exponent, out):
    """Write m 2^-exponent, rounded once: (n,) integers -> out (n,) float32."""
    xp = array_module(message)
    out[...] = xp.ldexp(message.astype(xp.float64), -exponent)
