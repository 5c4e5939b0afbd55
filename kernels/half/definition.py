"""Plain array code for 16-bit floating point: the oracle. Never optimised."""

import numpy as np


def encode(values, out):
    """Round float32 to the nearest half, ties to even: (n,) -> out (n,), in place.

    out: float16 (fp16), or uint16, the upper 16 bits of a float32 (bf16). Larger numbers become infinity.
    """
    if out.dtype == np.float16:
        with np.errstate(over="ignore"):
            out[...] = values
        return
    bits = np.ascontiguousarray(values).view(np.uint32)
    out[...] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def decode(half, out):
    """Convert halves to float32, exactly: (n,) -> out (n,)."""
    out[...] = half if half.dtype == np.float16 else (half.astype(np.uint32) << 16).view(np.float32)


def add(into, other):
    """into = encode(decode(into) + decode(other)). other: halves, or float32, which is rounded first; (n,) each."""
    terms = []
    for array in (into, other):
        half = np.empty_like(into)
        if array.dtype == into.dtype:
            half = array
        else:
            encode(array, half)
        terms.append(np.empty(into.shape, np.float32))
        decode(half, terms[-1])
    encode(terms[0] + terms[1], into)
