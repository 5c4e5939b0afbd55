"""Products of a matrix with few columns, as an LSTM's step has them, with the bits of the BLAS in use.

BLAS copies both factors before each product. With few columns this takes as long as the product. Here the weights are
copied once for all steps, and a tile of the result stays in vector registers.

    out[r, s] = fma(weights[k, r], x[k, s], ...) over rising k, in pieces of ``depth`` terms that are then added up

OpenBLAS forms the same sums. ``depth_for`` compares the bits, and finds the depth, on this machine. Where they differ
BLAS computes.
"""

from functools import lru_cache

import numpy as np
from llvmlite import binding, ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from kernels.compiled import compiled, inlined
from kernels.lstm.fast import transpose

TALL, SHORT = 24, 8  # rows of a tile: 24 and an element of x fit in the 32 vector registers of AVX-512
WIDE, NARROW = 16, 8  # its columns
ONE_PIECE, NO_ZERO = 2**40, 2**41  # all terms in one piece; the second: as BLAS adds small ones, not to 0 at first
DEPTHS = (ONE_PIECE, NO_ZERO, 448, 384, 320, 256, 512)
WIDEST = 128  # columns up to which this is faster than BLAS


@lru_cache(maxsize=None)
def depth_for(form, terms: int, rows: int, columns: int) -> int | None:
    """Return the depth at which ``product`` gives the bits of BLAS; None: there is none, or BLAS is faster. Local.

    form(weights, x) -> the (rows, columns) product weights.T @ x of float32, as the caller lets BLAS compute it.
    weights: (terms, rows).  x: (terms, columns).
    """
    whole_tiles = rows % SHORT == columns % NARROW == 0 < min(terms, rows, columns)
    if not (has_registers() and columns <= WIDEST and whole_tiles):
        return None
    cases = [_factors(seed, terms, rows, columns) for seed in range(3)]
    expected, out = [form(*case) for case in cases], np.empty((rows, columns), np.float32)
    for depth in DEPTHS:
        if all(_same(product(panels(weights, False), x, out, depth) or out, right)
               for (weights, x), right in zip(cases, expected)):
            return depth
    return None


def _same(found, expected):
    return np.array_equal(found.view(np.int32), expected.view(np.int32))


def _factors(seed, terms, rows, columns):
    """Return weights and x. From seed 1 on their sizes differ by many powers of two, and terms cancel.

    From seed 2 on most sums are too small for float32. BLAS rounds them to 0 or, for small factors, also to -0.
    """
    random = np.random.default_rng(seed)
    drawn = (random.standard_normal(many) * 2.0 ** (4 * seed * random.standard_normal(many)) for many in (9973, 7919))
    weights, x = (np.resize(some.astype(np.float32), (terms, n)) for some, n in zip(drawn, (rows, columns)))
    x[1::2] = -x[:len(x) // 2 * 2:2] if seed else x[1::2]
    tiny = np.float32(1e-30 if seed > 1 else 1)
    return weights * tiny, x * tiny


@lru_cache(maxsize=None)
def has_registers() -> bool:
    """Return whether this processor has 32 vector registers and fused multiplication and addition, and Numba is on."""
    return not config.DISABLE_JIT and binding.get_host_cpu_features().get("avx512vl", False)


def _tile(rows, columns):
    """Return a Numba intrinsic that computes a tile of ``product``. Its result is None.

    out, weights, x: addresses of the tile, and of the first terms.  steps: bytes between rows of the three.
    first: whether these are the first terms, added to ``zero``; else the sum is added to what is there.
    zero: -0 if a sum that rounds to -0 stays so.
    """
    def add(typingctx, out, weights, x, steps, terms, first, zero):
        def generate(context, builder, signature, arguments):
            element, lane = ir.FloatType(), ir.IntType(32)
            vector, nothing = ir.VectorType(element, columns), ir.Constant(ir.VectorType(element, columns), None)
            fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3),
                                                 f"llvm.fma.v{columns}f32")
            out, weights, x, steps, terms, first, zero = arguments
            out_step, weights_step, x_step = cgutils.unpack_tuple(builder, steps, 3)

            def at(base, index, step, kind, more=0):
                place = builder.add(builder.add(base, builder.mul(index, step)), ir.Constant(base.type, more))
                return builder.inttoptr(place, kind.as_pointer())

            def everywhere(number):
                one = builder.insert_element(nothing, number, lane(0))
                return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(lane, columns), None))

            sums = [cgutils.alloca_once_value(builder, nothing) for _ in range(rows)]
            for total in sums:
                builder.store(nothing, total)
            with cgutils.for_range(builder, terms) as loop:
                right = builder.load(at(x, loop.index, x_step, vector), align=4)
                for row, total in enumerate(sums):
                    left = everywhere(builder.load(at(weights, loop.index, weights_step, element, 4 * row)))
                    builder.store(builder.call(fma, [left, right, builder.load(total)]), total)
            for row, total in enumerate(sums):
                place = at(out, ir.Constant(out.type, row), out_step, vector)
                before = builder.select(first, everywhere(zero), builder.load(place, align=4))
                builder.store(builder.fadd(before, builder.load(total)), place, align=4)
            return context.get_dummy_value()

        return types.void(out, weights, x, steps, terms, first, zero), generate

    return intrinsic(add)


_tall_wide, _tall_narrow, _short_wide, _short_narrow = (
    _tile(rows, columns) for rows in (TALL, SHORT) for columns in (WIDE, NARROW))


@compiled
def panels(weights, turned):
    """Return weights (terms, rows) as ``product`` reads them, in memory's order: (panels, terms, TALL). Local.

    rows: a multiple of 8. The last panel may be filled in part.  turned: the argument is the transpose of the weights.
    """
    rows, terms = weights.shape if turned else weights.shape[::-1]
    out = np.empty((-(-rows // TALL), terms, TALL), weights.dtype)
    for panel in range(len(out)):
        first, many = panel * TALL, min(TALL, rows - panel * TALL)
        if turned:
            transpose(weights[first:first + many], out[panel, :, :many])
        else:
            for term in range(terms):
                for row in range(many):
                    out[panel, term, row] = weights[term, first + row]
    return out


@compiled
def product(weights, x, out, depth):
    """Write weights.T @ x to out (rows, columns). weights: of ``panels``.  x: (terms, columns), columns / 8 is whole.

    float32; each row is contiguous.  depth: of ``depth_for``.
    """
    start, terms, zero = 0, len(x), np.float32(-0.0 if depth == NO_ZERO else 0.0)
    while start < terms:
        count = min(terms - start, depth)
        if depth < terms - start < 2 * depth:
            count = ((terms - start) // 2 + 15) // 16 * 16
        for panel in range(len(weights)):
            part, target = weights[panel, start:], out[panel * TALL:]
            if len(target) >= TALL:
                _row(_tall_wide, _tall_narrow, part, x[start:], target, count, start == 0, zero)
            else:
                for row in range(0, len(target), SHORT):
                    _row(_short_wide, _short_narrow, part[:, row:], x[start:], target[row:], count, start == 0, zero)
        start += count


@inlined
def _row(wide, narrow, weights, x, out, count, first, zero):
    """Compute tiles side by side."""
    steps, columns = (out.strides[0], weights.strides[0], x.strides[0]), out.shape[1]
    for column in range(0, columns - columns % WIDE, WIDE):
        wide(out.ctypes.data + 4 * column, weights.ctypes.data, x.ctypes.data + 4 * column, steps, count, first, zero)
    if columns % WIDE:
        column = columns - NARROW
        narrow(out.ctypes.data + 4 * column, weights.ctypes.data, x.ctypes.data + 4 * column, steps, count, first, zero)
