"""Transposes of matrices in vector registers: a tile of n x n elements is read, turned and written in n vectors."""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.compiled import compiled

LARGE, SMALL = 16, 8  # elements in a line of a tile: a cache line of float32, and half of it


def _turner(size):
    """Return a Numba intrinsic that writes the transpose of a tile, ``size`` is a power of two. Its result is None.

    to, tile: addresses.  to_step, tile_step: bytes between lines.  like: an array with the dtype.
    """
    def turn(typingctx, to, to_step, tile, tile_step, like):
        def generate(context, builder, signature, arguments):
            to, to_step, tile, tile_step, _ = arguments
            vector = ir.VectorType(context.get_value_type(like.dtype), size)

            def at(base, step, line):
                place = builder.add(base, builder.mul(step, ir.Constant(step.type, line)))
                return builder.inttoptr(place, vector.as_pointer())

            def lanes(numbers):
                number = ir.IntType(32)
                return ir.Constant(ir.VectorType(number, size), [number(lane) for lane in numbers])

            align, half = like.dtype.bitwidth // 8, size // 2
            lines = [builder.load(at(tile, tile_step, line), align=align) for line in range(size)]
            while half:  # exchange blocks of half x half elements beside the diagonal
                lower, upper = (lanes([(lane & ~half) + more + (lane & half and size) for lane in range(size)])
                                for more in (0, half))
                for line in (line for line in range(size) if not line & half):
                    pair = lines[line], lines[line + half]
                    lines[line], lines[line + half] = (builder.shuffle_vector(*pair, some) for some in (lower, upper))
                half //= 2
            for line, turned in enumerate(lines):
                builder.store(turned, at(to, to_step, line), align=align)
            return context.get_dummy_value()

        return types.void(to, to_step, tile, tile_step, like), generate

    return intrinsic(turn)


_turn_large, _turn_small = _turner(LARGE), _turner(SMALL)


@compiled
def transpose(matrix, out):
    """Write the transpose of ``matrix`` (rows, columns) to ``out``."""
    (rows, columns), size, tall, wide, top, left = matrix.shape, matrix.itemsize, 0, 0, 0, 0
    if matrix.strides[1] == out.strides[1] == size:  # the elements of a line lie side by side
        tall, wide = rows - rows % SMALL, columns - columns % SMALL
        top, left = rows - rows % LARGE, columns - columns % LARGE
    down = rows >= columns  # the long lines are read or written in memory's order: short ones share fewer cache sets
    to, tile = np.int64(out.ctypes.data), np.int64(matrix.ctypes.data)
    to_step, tile_step = out.strides[0], matrix.strides[0]
    for outer in range(0, left if down else top, LARGE):
        for inner in range(0, top if down else left, LARGE):
            row, column = (inner, outer) if down else (outer, inner)
            _turn_large(to + column * to_step + row * size, to_step, tile + row * tile_step + column * size, tile_step,
                        matrix)
    for row in range(0, tall, SMALL):
        for column in range(left if row < top else 0, wide, SMALL):
            _turn_small(to + column * to_step + row * size, to_step, tile + row * tile_step + column * size, tile_step,
                        matrix)
    for row in range(rows):
        for column in range(wide if row < tall else 0, columns):
            out[column, row] = matrix[row, column]
