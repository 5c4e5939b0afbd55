"""16-bit floating point as integers of 16 bits: float16 arrays (fp16), or uint16 arrays, a float32's upper half (bf16).
"""

from kernels.arrays import is_numpy
from kernels.half import definition, fast


def encode(values, out):
    """Round float32 values to ``out``, of the same shape, contiguous; see ``definition.encode``. Local."""
    _version(values, out).encode(values.reshape(-1), out.reshape(-1))


def decode(half, out):
    """Write halves as float32 to ``out``, of the same shape, contiguous. Local."""
    _version(half, out).decode(half.reshape(-1), out.reshape(-1))


def add(into, other):
    """Add halves, or float32 values that are rounded first, to ``into``, contiguous, and round. Local."""
    _version(into, other).add(into.reshape(-1), other.reshape(-1))


def _version(*arrays):
    return fast if is_numpy(*arrays) else definition


__all__ = ["add", "decode", "encode"]
