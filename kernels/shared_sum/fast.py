"""``definition`` in Numba, with the same bits. It works block by block, so that partial sums stay in the L1 cache.

Each input is read from memory once, each output written once. Four inputs of one node of the tree are read together
and stay in registers. Arrays are given by the addresses of their first elements, because arrays of a shared window have
other addresses in every process. float16 is computed on uint16 arrays: Numba has no half precision, LLVM does.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.atomics import LINE
from kernels.compiled import compiled

BLOCK = 1024  # elements of a block: partial sums stay in the L1 cache while inputs are prefetched
LANES = 16  # elements of a vector: a cache line of float32
AHEAD = 1024  # bytes to prefetch: the processor's own prefetching starts slowly in each page
copy_bytes = types.ExternalFunction("memcpy", types.uintp(types.uintp, types.uintp, types.uintp))
DTYPES = ("float16", "float32", "float64", "int32", "int64")


def computable(dtype):
    """Return the dtype as which the kernels read arrays of ``dtype``; None if they cannot."""
    return {"float16": np.dtype(np.uint16)}.get(dtype.name, dtype) if dtype.name in DTYPES else None


def scratch_for(registers, dtype):
    """Return memory for the partial sums of ``sum_blocks``; each begins at a cache line."""
    dtype = computable(np.dtype(dtype))
    count = max(1, registers) * BLOCK
    memory = np.empty(count + LINE // dtype.itemsize, dtype)
    start = -memory.ctypes.data % LINE // dtype.itemsize
    return memory[start:start + count].reshape(-1, BLOCK)


def table(pairs):
    """Return pairs (register, address) as an (n, 2) int64 array for ``sum_blocks``."""
    return np.array(pairs, np.int64).reshape(-1, 2)


def fused(sums, kept):
    """Return sums (into, other), in order, as an (m, 4) int64 array for ``sum_blocks``.

    A row a, b, c, d means a += b, c += d, a += c in one pass: a becomes (a + b) + (c + d), c is not written.
    A row a, b, -1, -1 means a += b.  kept: registers that are read at the end.
    """
    sums, rows = [tuple(pair) for pair in sums], []
    while sums:
        (a, b), (c, d), last = [*sums[:3], (-1, -1), (-1, -1)][:3]
        later = {*kept, *(register for pair in sums[3:] for register in pair)}
        if last == (a, c) != (-1, -1) and len({a, b, c, d}) == 4 and c not in later:
            rows.append((a, b, c, d))
            sums = sums[3:]
        else:
            rows.append((a, b, -1, -1))
            sums = sums[1:]
    return np.array(rows, np.int64).reshape(-1, 4)


def sum_in_order(inputs, sums, outputs, start, stop):
    addresses = np.array([array.ctypes.data for array in inputs], np.int64)
    places = table([(register, array.ctypes.data) for register, array in outputs])
    rows = fused(sums, [register for register, _ in outputs])
    sum_blocks(addresses, rows, places, 0, start, stop, scratch_for(len(inputs), inputs[0].dtype))


def _plus(builder, left, right, dtype):
    """Return left + right in LLVM. uint16 means halves: they are added as floats and rounded once."""
    if dtype != types.uint16:
        return (builder.fadd if isinstance(dtype, types.Float) else builder.add)(left, right)
    wide = ir.VectorType(ir.FloatType(), left.type.count)
    return builder.fptrunc(builder.fadd(builder.fpext(left, wide), builder.fpext(right, wide)), left.type)


def _fetch(builder, address, nbytes):
    """Prefetch ``nbytes``, AHEAD bytes after an address. Past an array's end this does nothing."""
    text, number = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [text, number, number, number])
    fetch = builder.module.declare_intrinsic("llvm.prefetch", [text], kind)
    for line in range(AHEAD, AHEAD + nbytes, LINE):
        place = builder.inttoptr(builder.add(address, ir.Constant(address.type, line)), text)
        builder.call(fetch, [place, number(0), number(3), number(1)])  # to read, to keep in all caches, data


def _adder(width):
    """Return the Numba intrinsic (target, a, b, c, d, like) that adds ``width`` elements in vector operations.

    a to d: addresses of terms, whose elements have the dtype of the array ``like``. The sum is a + b if c is None, else
    (a + b) + (c + d). Numba does not vectorise loops over arrays that might overlap, so this does.
    """
    def add(typingctx, target, a, b, c, d, like):
        dtype, terms = like.dtype, 2 if c == types.none else 4

        def generate(context, builder, signature, arguments):
            element = ir.HalfType() if dtype == types.uint16 else context.get_value_type(dtype)
            vector, align = ir.VectorType(element, width), dtype.bitwidth // 8
            pointers = [builder.inttoptr(address, vector.as_pointer()) for address in arguments[:terms + 1]]
            if width > 1:
                for address in arguments[1:terms + 1]:
                    _fetch(builder, address, width * align)
            values = [builder.load(pointer, align=align) for pointer in pointers[1:]]
            pairs = [_plus(builder, *values[at:at + 2], dtype) for at in range(0, terms, 2)]
            total = _plus(builder, *pairs, dtype) if len(pairs) > 1 else pairs[0]
            builder.store(total, pointers[0], align=align)
            return context.get_dummy_value()

        return types.void(target, a, b, c, d, like), generate

    return intrinsic(add)


_add_vectors, _add_one = _adder(LANES), _adder(1)


@compiled
def add_two(target, a, b, count, like):
    """Write ``count`` sums a + b, of the dtype of ``like``; the arrays are the same or do not overlap."""
    size = like.itemsize
    whole = count // LANES * LANES * size
    for at in range(0, whole, LANES * size):
        _add_vectors(target + at, a + at, b + at, None, None, like)
    for at in range(whole, count * size, size):
        _add_one(target + at, a + at, b + at, None, None, like)


@compiled
def _add_four(target, a, b, c, d, count, like):
    """Write ``count`` sums (a + b) + (c + d), as ``add_two`` does, without temporary arrays."""
    size = like.itemsize
    whole = count // LANES * LANES * size
    for at in range(0, whole, LANES * size):
        _add_vectors(target + at, a + at, b + at, c + at, d + at, like)
    for at in range(whole, count * size, size):
        _add_one(target + at, a + at, b + at, c + at, d + at, like)


@compiled
def sum_blocks(inputs, sums, outputs, shift, start, stop, scratch):
    """Add up [start, stop) of the arrays at ``inputs`` + shift in the order of ``sums`` into those of ``outputs``.

    inputs: (k,) int64 addresses.  sums: (m, 4), see ``fused``.  outputs: (q, 2) (register, address).  shift: bytes.
    scratch: see ``scratch_for``; of the arrays' dtype. Write np.int64(0), since Numba compiles again for a literal 0.
    """
    size = scratch.itemsize
    where, partials = np.empty(len(inputs), np.int64), np.int64(scratch.ctypes.data)
    for first in range(start, stop, BLOCK):
        count = min(BLOCK, stop - first)
        for register in range(len(inputs)):
            where[register] = inputs[register] + shift + first * size
        for number in range(len(sums)):
            into, other, third, fourth = sums[number, 0], sums[number, 1], sums[number, 2], sums[number, 3]
            target = partials + into * BLOCK * size
            if number == len(sums) - 1 and len(outputs) == 1 and into == outputs[0, 0]:
                target = outputs[0, 1] + shift + first * size
            if third < 0:
                add_two(target, where[into], where[other], count, scratch)
            else:
                _add_four(target, where[into], where[other], where[third], where[fourth], count, scratch)
            where[into] = target
        for number in range(len(outputs) if len(outputs) > 1 else 0):  # an output may overwrite the input of another
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
