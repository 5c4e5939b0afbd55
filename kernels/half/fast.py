"""16-bit floating point in Numba: one pass, in vectors. Same bits as ``definition``.

Both kinds are computed on their bits, uint16. fp16 is LLVM's half: Numba has none.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.compiled import compiled, inlined


def encode(values, out):
    (_encode_fp16 if out.dtype == np.float16 else _encode_bf16)(values, out.view(np.uint16))


def decode(half, out):
    (_decode_fp16 if half.dtype == np.float16 else _decode_bf16)(half.view(np.uint16), out)


def add(into, other):
    rounds, kernels = other.dtype == np.float32, SUMS[into.dtype.type]
    kernels[rounds](into.view(np.uint16), other if rounds else other.view(np.uint16))


@intrinsic
def _fp16_of(typingctx, number):
    """Return the bits of a float32, rounded to a half."""
    def generate(context, builder, signature, arguments):
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return types.uint16(types.float32), generate


@intrinsic
def _float_of(typingctx, bits):
    """Return a half of these bits as float32."""
    def generate(context, builder, signature, arguments):
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return types.float32(types.uint16), generate


@inlined
def _bf16_of(number):
    bits = np.float32(number).view(np.uint32)
    return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))


@inlined
def _wide(bits):
    return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)


@compiled
def _encode_fp16(values, out):
    for i in range(len(out)):
        out[i] = _fp16_of(values[i])


@compiled
def _decode_fp16(half, out):
    for i in range(len(out)):
        out[i] = _float_of(half[i])


@compiled
def _add_fp16(into, other):
    for i in range(len(into)):
        into[i] = _fp16_of(_float_of(into[i]) + _float_of(other[i]))


@compiled
def _round_and_add_fp16(into, other):
    for i in range(len(into)):
        into[i] = _fp16_of(_float_of(into[i]) + _float_of(_fp16_of(other[i])))


@compiled
def _encode_bf16(values, out):
    for i in range(len(out)):
        out[i] = _bf16_of(values[i])


@compiled
def _decode_bf16(half, out):
    for i in range(len(out)):
        out[i] = _wide(half[i])


@compiled
def _add_bf16(into, other):
    for i in range(len(into)):
        into[i] = _bf16_of(_wide(into[i]) + _wide(other[i]))


@compiled
def _round_and_add_bf16(into, other):
    for i in range(len(into)):
        into[i] = _bf16_of(_wide(into[i]) + _wide(_bf16_of(other[i])))


SUMS = {np.float16: (_add_fp16, _round_and_add_fp16), np.uint16: (_add_bf16, _round_and_add_bf16)}
"""Kind -> (the sum with halves, with float32)."""
