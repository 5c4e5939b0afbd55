"""Sums of several arrays in a given order in Numba: block by block, so that partial sums never leave the L1 cache.

Each input is read from memory once, each output written once. Same bits as ``definition``. Arrays are given by the
addresses of their first elements: those of a shared window are at other addresses in every process. float16 is
computed on uint16 arrays: Numba has no half precision, LLVM does.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.atomics import LINE
from kernels.compiled import compiled

BLOCK = 1024  # elements of a block: partial sums stay in the L1 cache, and memory streams ahead of the sums
LANES = 16  # elements of a vector: a cache line of float32
copy_bytes = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))
DTYPES = ("float16", "float32", "float64", "int32", "int64")


def computable(dtype):
    """Return the dtype under which the kernels take arrays of ``dtype``, None if they take none."""
    return {"float16": np.dtype(np.uint16)}.get(dtype.name, dtype) if dtype.name in DTYPES else None


def scratch_for(registers, dtype):
    """Return the memory for partial sums that ``sum_blocks`` wants: each begins a cache line."""
    dtype = computable(np.dtype(dtype))
    count = max(1, registers) * BLOCK
    memory = np.empty(count + LINE // dtype.itemsize, dtype)
    start = -memory.ctypes.data % LINE // dtype.itemsize
    return memory[start:start + count].reshape(-1, BLOCK)


def table(pairs):
    """Return pairs of integers as the (n, 2) int64 array that ``sum_blocks`` wants."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def sum_in_order(inputs, sums, outputs, start, stop):
    """See ``definition.sum_in_order``. Arrays must be contiguous."""
    addresses = np.array([array.ctypes.data for array in inputs], np.int64)
    places = table([(register, array.ctypes.data) for register, array in outputs])
    sum_blocks(addresses, table(sums), places, 0, start, stop, scratch_for(len(inputs), inputs[0].dtype))


def _adder(width):
    """Return the Numba intrinsic (target, left, right, like) that adds ``width`` elements in one vector operation.

    target, left, right: addresses; their elements have the dtype of the array ``like``. Explicit, because Numba compiles
    a loop over arrays that might overlap into single additions. uint16 are the bits of halves, whose sum is rounded
    once from that of floats.
    """
    def add(typingctx, target, left, right, like):
        dtype, half = like.dtype, like.dtype == types.uint16

        def generate(context, builder, signature, arguments):
            vector = ir.VectorType(ir.HalfType() if half else context.get_value_type(dtype), width)
            pointers = [builder.inttoptr(address, vector.as_pointer()) for address in arguments[:3]]
            terms = [builder.load(pointer, align=dtype.bitwidth // 8) for pointer in pointers[1:]]
            if half:
                terms = [builder.fpext(term, ir.VectorType(ir.FloatType(), width)) for term in terms]
            total = (builder.fadd if half or isinstance(dtype, types.Float) else builder.add)(*terms)
            total = builder.fptrunc(total, vector) if half else total
            builder.store(total, pointers[0], align=dtype.bitwidth // 8)
            return context.get_dummy_value()

        return types.void(target, left, right, like), generate

    return intrinsic(add)


_add_vectors, _add_one = _adder(LANES), _adder(1)


@compiled
def _add(target, left, right, count, like):
    """Write ``count`` sums of elements of the dtype of ``like``; the arrays are the same or do not overlap."""
    size = like.itemsize
    whole = count // LANES * LANES * size
    for at in range(0, whole, LANES * size):
        _add_vectors(target + at, left + at, right + at, like)
    for at in range(whole, count * size, size):
        _add_one(target + at, left + at, right + at, like)


@compiled
def sum_blocks(inputs, sums, outputs, shift, start, stop, scratch):
    """Add up [start, stop) of the arrays at ``inputs`` + shift in the order of ``sums`` into those of ``outputs``.

    inputs: (k,) int64 addresses.  sums: (m, 2) (into, other).  outputs: (q, 2) (register, address).  shift: bytes.
    scratch: see ``scratch_for``; its dtype is the arrays'.
    """
    size = scratch.itemsize
    where, partials = np.empty(len(inputs), np.int64), np.int64(scratch.ctypes.data)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        for register in range(len(inputs)):
            where[register] = inputs[register] + shift + first * size
        for number in range(len(sums)):
            into, other = sums[number, 0], sums[number, 1]
            target = partials + into * BLOCK * size
            if number == len(sums) - 1 and len(outputs) == 1 and into == outputs[0, 0]:
                target = outputs[0, 1] + shift + first * size
            _add(target, where[into], where[other], count, scratch)
            where[into] = target
        for number in range(len(outputs) if len(outputs) > 1 else 0):  # an output may lie where another is read
            register = outputs[number, 0]
            partial = partials + register * BLOCK * size
            if where[register] != partial:
                copy_bytes(partial, where[register], count * size)
                where[register] = partial
        for number in range(len(outputs)):
            source = where[outputs[number, 0]]
            target = outputs[number, 1] + shift + first * size
            if source != target:
                copy_bytes(target, source, count * size)
