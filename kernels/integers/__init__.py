"""Gradients as integers with a power of two as scale: their sums are exact in any order. NumPy only."""

from kernels.integers import definition, fast


def encode(values, exponent, key, out):
    """Write float32 values to integers ``out``, of the same shape, contiguous; see ``definition.encode``. Local."""
    fast.encode(values.reshape(-1), exponent, key, out.reshape(-1))


def decode(message, exponent, out):
    """Write integers as float32 to ``out``, of the same shape, contiguous. Local."""
    fast.decode(message.reshape(-1), exponent, out.reshape(-1))


__all__ = ["decode", "definition", "encode"]
