"""Products of a matrix with few columns, as an LSTM's step has them, with the bits of the BLAS in use.

BLAS copies both factors before each product. With few columns this takes as long as the product. Here the weights are
copied once for all steps, and a tile of the result stays in vector registers. Vectors are rows of the result, so that
they are full for any number of columns.

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
from kernels.lstm.transposes import transpose

LANES = 16  # elements of a vector register of AVX-512; there are 32 registers
TALL = 2 * LANES  # rows of a tile
WIDE, NARROW = 12, 8  # its columns: their sums fit in 24 registers. Each multiple of 4 from 8 on is a sum of these
ONE_PIECE, NO_ZERO = 2**40, 2**41  # all terms in one piece; the second: as BLAS adds small ones, not to 0 at first
DEPTHS = (ONE_PIECE, NO_ZERO, 448, 384, 320, 256, 512)
WIDEST = 128  # columns up to which this is faster than BLAS


@lru_cache(maxsize=None)
def depth_for(form, terms: int, rows: int, columns: int) -> int | None:
    """Return the depth at which ``product`` gives the bits of BLAS; None: there is none, or BLAS is faster. Local.

    form(weights, x) -> the (rows, columns) product weights.T @ x of float32, as the caller lets BLAS compute it.
    weights: (terms, rows).  x: (terms, columns).
    """
    if not (has_registers() and columns <= WIDEST and min(terms, rows, columns) > 0):
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


def _tile(columns):
    """Return a Numba intrinsic that computes ``columns`` columns of TALL rows of ``product``. Its result is None.

    out: the address of the tile's transpose, whose rows are contiguous.  weights, x: addresses of their first terms.
    step: bytes between rows of x.  first: whether these are the first terms, added to ``zero``; else the sum is added
    to what is there.  zero: -0 if a sum that rounds to -0 stays so.
    """
    def add(typingctx, out, weights, x, step, terms, first, zero):
        def generate(context, builder, signature, arguments):
            element, lane, places = ir.FloatType(), ir.IntType(32), range(0, TALL, LANES)
            vector, nothing = ir.VectorType(element, LANES), ir.Constant(ir.VectorType(element, LANES), None)
            fma = cgutils.get_or_insert_function(builder.module, ir.FunctionType(vector, [vector] * 3),
                                                 f"llvm.fma.v{LANES}f32")
            out, weights, x, step, terms, first, zero = arguments
            row = ir.Constant(out.type, 4 * TALL)

            def at(base, index, step, kind, more=0):
                place = builder.add(builder.add(base, builder.mul(index, step)), ir.Constant(base.type, 4 * more))
                return builder.inttoptr(place, kind.as_pointer())

            def everywhere(number):
                one = builder.insert_element(nothing, number, lane(0))
                return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(lane, LANES), None))

            sums = [[cgutils.alloca_once_value(builder, nothing) for _ in places] for _ in range(columns)]
            for total in sum(sums, []):
                builder.store(nothing, total)
            with cgutils.for_range(builder, terms) as loop:
                left = [builder.load(at(weights, loop.index, row, vector, place), align=4) for place in places]
                for column, totals in enumerate(sums):
                    right = everywhere(builder.load(at(x, loop.index, step, element, column)))
                    for part, total in zip(left, totals):
                        builder.store(builder.call(fma, [part, right, builder.load(total)]), total)
            for column, totals in enumerate(sums):
                for place, total in zip(places, totals):
                    target = at(out, ir.Constant(out.type, column), row, vector, place)
                    before = builder.select(first, everywhere(zero), builder.load(target, align=4))
                    builder.store(builder.fadd(before, builder.load(total)), target, align=4)
            return context.get_dummy_value()

        return types.void(out, weights, x, step, terms, first, zero), generate

    return intrinsic(add)


_wide, _narrow = _tile(WIDE), _tile(NARROW)


@compiled
def panels(weights, turned):
    """Return weights (terms, rows) as ``product`` reads them, in memory's order: (panels, terms, TALL). Local.

    The last panel is filled up with zeros.  turned: the argument is the transpose of the weights.
    """
    rows, terms = weights.shape if turned else weights.shape[::-1]
    out = np.empty((-(-rows // TALL), terms, TALL), weights.dtype)
    out[-1] = 0
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
    """Write weights.T @ x to out (rows, columns). weights: of ``panels``.  x: (terms, columns), contiguous.

    float32; each row of out is contiguous.  depth: of ``depth_for``.
    """
    terms, columns = x.shape
    zero, whole = np.float32(-0.0 if depth == NO_ZERO else 0.0), max(NARROW, -(-columns // 4) * 4)
    if whole > columns:
        x = widened(x, whole)
    sums = np.empty((whole, TALL), np.float32)
    for panel in range(len(weights)):
        start = 0
        while start < terms:
            count = min(terms - start, depth)
            if depth < terms - start < 2 * depth:
                count = ((terms - start) // 2 + 15) // 16 * 16
            _row(weights[panel, start:], x[start:], sums, count, start == 0, zero)
            start += count
        target = out[panel * TALL:(panel + 1) * TALL]
        transpose(sums[:columns, :len(target)], target)


@compiled
def widened(x, columns):
    """Return x (terms, fewer columns) with columns of zeros after its own."""
    out = np.zeros((len(x), columns), x.dtype)
    for term in range(len(x)):  # in loops, which are compiled in a fraction of the time
        for column in range(x.shape[1]):
            out[term, column] = x[term, column]
    return out


@inlined
def _row(weights, x, sums, count, first, zero):
    """Compute tiles side by side; their transposes lie one below the other in ``sums``."""
    step, column = x.strides[0], 0
    while column < len(sums):
        out, right, left = sums[column:].ctypes.data, x.ctypes.data + 4 * column, len(sums) - column
        if left == NARROW or left == 2 * NARROW:
            _narrow(out, weights.ctypes.data, right, step, count, first, zero)
            column += NARROW
        else:
            _wide(out, weights.ctypes.data, right, step, count, first, zero)
            column += WIDE
