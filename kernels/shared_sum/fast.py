"""Sums of several arrays in a given order in Numba: block by block, so that partial sums never leave the L1 cache.

Each input is read from memory once, each output written once. Same bits as ``definition``. Arrays are given by the
addresses of their first elements: those of a shared window are at other addresses in every process. float16 is
computed on uint16 arrays: Numba has no half precision, LLVM does.
"""

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.extending import intrinsic

BLOCK = 2048  # elements of a block: the partial sums of a few registers fit the L1 cache of any core
copy_bytes = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))
DTYPES = ("float16", "float32", "float64", "int32", "int64")


def computable(dtype):
    """Return the dtype under which the kernels take arrays of ``dtype``, None if they take none."""
    return {"float16": np.dtype(np.uint16)}.get(dtype.name, dtype) if dtype.name in DTYPES else None


def scratch_for(registers, dtype):
    """Return the memory for partial sums that ``sum_blocks`` wants."""
    return np.empty((max(1, registers), BLOCK), computable(np.dtype(dtype)))


def table(pairs):
    """Return pairs of integers as the (n, 2) int64 array that ``sum_blocks`` wants."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def sum_in_order(inputs, sums, outputs, start, stop):
    """See ``definition.sum_in_order``. Arrays must be contiguous."""
    addresses = np.array([array.ctypes.data for array in inputs], np.int64)
    places = table([(register, array.ctypes.data) for register, array in outputs])
    sum_blocks(addresses, table(sums), places, 0, start, stop, scratch_for(len(inputs), inputs[0].dtype))


@intrinsic
def add(typingctx, left, right):
    """Return left + right of one type; uint16 are the bits of halves, whose sum is rounded once from that of floats."""
    def generate(context, builder, signature, arguments):
        if signature.return_type == types.uint16:
            half, single = ir.HalfType(), ir.FloatType()
            wide = [builder.fpext(builder.bitcast(bits, half), single) for bits in arguments]
            return builder.bitcast(builder.fptrunc(builder.fadd(*wide), half), ir.IntType(16))
        plus = builder.fadd if isinstance(signature.return_type, types.Float) else builder.add
        return plus(*arguments)

    return left(left, right), generate


@intrinsic
def pointer_at(typingctx, address, like):
    """Return the address as a pointer to elements of the array ``like``."""
    pointer = types.CPointer(like.dtype)

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(address, like), generate


@njit(cache=True, nogil=True, error_model="numpy")
def sum_blocks(inputs, sums, outputs, shift, start, stop, scratch):
    """Add up [start, stop) of the arrays at ``inputs`` + shift in the order of ``sums`` into those of ``outputs``.

    inputs: (k,) int64 addresses.  sums: (m, 2) (into, other).  outputs: (q, 2) (register, address).  shift: bytes.
    scratch: see ``scratch_for``; its dtype is the arrays'.
    """
    size = scratch.itemsize
    where = np.empty(len(inputs), np.int64)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        for register in range(len(inputs)):
            where[register] = inputs[register] + shift + first * size
        for number in range(len(sums)):
            into, other = sums[number, 0], sums[number, 1]
            left = carray(pointer_at(where[into], scratch), (count,))
            right = carray(pointer_at(where[other], scratch), (count,))
            partial = scratch[into]
            for j in range(count):
                partial[j] = add(left[j], right[j])
            where[into] = scratch[into].ctypes.data
        for number in range(len(outputs) if len(outputs) > 1 else 0):  # an output may lie where another is read
            register = outputs[number, 0]
            if where[register] != scratch[register].ctypes.data:
                copy_bytes(scratch[register].ctypes.data, where[register], count * size)
                where[register] = scratch[register].ctypes.data
        for number in range(len(outputs)):
            source = where[outputs[number, 0]]
            target = outputs[number, 1] + shift + first * size
            if source != target:
                copy_bytes(target, source, count * size)
