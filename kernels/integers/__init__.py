"""Gradients as integers with a power of two as scale: their sums are exact in any order."""

from kernels.arrays import is_numpy
from kernels.integers import definition, fast


def encode(values, exponent, key, out):
    """Write float32 values to integers ``out``, of the same shape, contiguous; see ``definition.encode``. Local."""
    version = fast if is_numpy(values, out) else definition
    version.encode(values.reshape(-1), exponent, key, out.reshape(-1))


def decode(message, exponent, out):
    """Write integers as float32 to ``out``, of the same shape, contiguous. Local."""
    version = fast if is_numpy(message, out) else definition
    version.decode(message.reshape(-1), exponent, out.reshape(-1))


__all__ = ["decode", "encode"]
