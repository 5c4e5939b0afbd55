"""16-bit floating point as integers of 16 bits: float16 arrays (fp16), or uint16 arrays, a float32's upper half (bf16).
"""

import numpy as np

from kernels.half import definition, fast


KINDS = {"bf16": np.uint16, "fp16": np.float16}
"""Kind -> the dtype of its arrays."""


def encode(values, out):
    """Round float32 values to ``out``, of the same shape, contiguous; see ``definition.encode``. Local."""
    fast.encode(values.reshape(-1), out.reshape(-1))


def decode(half, out):
    """Write halves as float32 to ``out``, of the same shape, contiguous. Local."""
    fast.decode(half.reshape(-1), out.reshape(-1))


def add(into, other):
    """Add halves, or float32 values that are rounded first, to ``into``, contiguous, and round. Local."""
    fast.add(into.reshape(-1), other.reshape(-1))


def rounded(values, kind: str):
    """Return float32 values, of any shape, rounded to "bf16" or "fp16". Local, NumPy."""
    values = np.asarray(values, np.float32)
    message, out = np.empty(values.shape, KINDS[kind]), np.empty(values.shape, np.float32)
    encode(np.ascontiguousarray(values).reshape(values.shape), message)
    decode(message, out)
    return out


__all__ = ["KINDS", "add", "decode", "encode", "rounded"]
