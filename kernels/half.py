"""16-bit floating point in Numba: one pass, in vectors. The plain version: ``plain.encoding.codecs.Rounded``.

Halves are float16 arrays (fp16), or uint16 arrays, the upper halves of float32 numbers (bf16). The kernels read both as
bits: bf16 as int16, fp16 as uint16. The dtype decides how a number is rounded. fp16 is LLVM's half: Numba has none.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.compiled import compiled

KINDS = {"bf16": np.uint16, "fp16": np.float16}
"""Kind -> the dtype of its arrays."""


def encode(values, out):
    """Round float32 to the nearest half, ties to even, in ``out``; larger numbers become infinity. Local.

    values, out: of one shape, contiguous.
    """
    _encode(values.reshape(-1), _bits(out))


def decode(half, out):
    """Write halves as float32 to ``out``, of the same shape, contiguous. Local."""
    _decode(_bits(half), out.reshape(-1))


def add(into, other):
    """Add halves, or float32 values that are rounded first, to ``into``, contiguous, and round. Local."""
    if other.dtype == np.float32:
        _round_and_add(_bits(into), other.reshape(-1))
    else:
        _add(_bits(into), _bits(other))


def rounded(values, kind: str):
    """Return float32 values, of any shape, rounded to "bf16" or "fp16". Local, NumPy."""
    values = np.asarray(values, np.float32)
    message, out = np.empty(values.shape, KINDS[kind]), np.empty(values.shape, np.float32)
    encode(np.ascontiguousarray(values).reshape(values.shape), message)
    decode(message, out)
    return out


def _bits(half):
    """Return halves as the kernels read them: (n,)."""
    return half.reshape(-1).view(np.uint16 if half.dtype == np.float16 else np.int16)


@intrinsic
def _half_of(typingctx, number, like):
    """Return the bits of a float32, rounded to a half. like: an array of halves."""
    def generate(context, builder, signature, arguments):
        if like.dtype == types.uint16:
            return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))
        bits = builder.bitcast(arguments[0], word := ir.IntType(32))
        odd = builder.and_(builder.lshr(bits, word(16)), word(1))  # added below: so a tie goes to the even half
        return builder.trunc(builder.lshr(builder.add(builder.add(bits, word(0x7FFF)), odd), word(16)), ir.IntType(16))

    return like.dtype(types.float32, like), generate


@intrinsic
def _float_of(typingctx, bits):
    """Return a half of these bits as float32."""
    def generate(context, builder, signature, arguments):
        if bits == types.uint16:
            return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())
        wide = builder.zext(arguments[0], word := ir.IntType(32))
        return builder.bitcast(builder.shl(wide, word(16)), ir.FloatType())

    return types.float32(bits), generate


@compiled
def _encode(values, out):
    for i in range(len(out)):
        out[i] = _half_of(values[i], out)


@compiled
def _decode(half, out):
    for i in range(len(out)):
        out[i] = _float_of(half[i])


@compiled
def _add(into, other):
    for i in range(len(into)):
        into[i] = _half_of(_float_of(into[i]) + _float_of(other[i]), into)


@compiled
def _round_and_add(into, other):
    for i in range(len(into)):
        into[i] = _half_of(_float_of(into[i]) + _float_of(_half_of(other[i], into)), into)
