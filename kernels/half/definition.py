"""Plain array code for 16-bit floating point: the oracle. Never optimised."""

from kernels.arrays import array_module


def encode(values, out):
    """Round float32 to the nearest half, ties to even: (n,) -> out (n,), in place.

    out: float16 (fp16), or uint16, the upper 16 bits of a float32 (bf16). Larger numbers become infinity.
    """
    xp = array_module(values, out)
    if out.dtype == xp.float16:
        with xp.errstate(over="ignore"):
            out[...] = values
        return
    bits = xp.ascontiguousarray(values).view(xp.uint32)
    out[...] = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def decode(half, out):
    """Convert halves to float32, exactly: (n,) -> out (n,)."""
    xp = array_module(half, out)
    out[...] = half if half.dtype == xp.float16 else (half.astype(xp.uint32) << 16).view(xp.float32)


def add(into, other):
    """into = encode(decode(into) + decode(other)). other: halves, or float32, which is rounded first; (n,) each."""
    xp = array_module(into, other)
    terms = []
    for array in (into, other):
        half = xp.empty_like(into)
        if array.dtype == into.dtype:
            half = array
        else:
            encode(array, half)
        terms.append(xp.empty(into.shape, xp.float32))
        decode(half, terms[-1])
    encode(terms[0] + terms[1], into)
