"""The transforms of Winograd's convolution F(2x2, 3x3), Numba: images to 4x4 tiles and back.

Both passes of B^T d B stay in registers: down the columns of an image, then along its lines. Channels are read and
written as vectors, and one by one where too few are left for a vector. Tiles are numbered row by row, image by image,
so that element (u, v) of a row of tiles is contiguous. A block starts at tile row ``first``. Pixels outside the image
are zero and are not stored.
"""

import numpy as np

from kernels.compiled import compiled, inlined
from kernels.vectors import LANES, load, store


def _of_input(load, store, lanes):
    """Return the input's transform of a row of tiles, for channels k to ``stop``, ``lanes`` at a time."""
    @inlined
    def column(d0, d1, d2, d3, at):
        e0, e1, e2, e3 = load(d0, at), load(d1, at), load(d2, at), load(d3, at)
        return e0 - e2, e1 + e2, e2 - e1, e1 - e3

    @inlined
    def input_row(d0, d1, d2, d3, zeros, tiles, to, c, k, stop):
        plane, line = len(tiles) // 16, len(d1)
        for k in range(k, stop, lanes):
            nothing = load(zeros, 0)
            outside = nothing, nothing, nothing, nothing
            left, middle, at = outside, column(d0, d1, d2, d3, k), to + k
            for place in range(c + k, line + c, 2 * c):
                right = column(d0, d1, d2, d3, place) if place < line else outside
                beyond = column(d0, d1, d2, d3, place + c) if place + c < line else outside
                for u in range(4):
                    e0, e1, e2, e3 = left[u], middle[u], right[u], beyond[u]
                    store(tiles, at + 4 * u * plane, e0 - e2)
                    store(tiles, at + (4 * u + 1) * plane, e1 + e2)
                    store(tiles, at + (4 * u + 2) * plane, e2 - e1)
                    store(tiles, at + (4 * u + 3) * plane, e1 - e3)
                left, middle, at = right, beyond, at + c

    return input_row


def _of_output(load, store, lanes):
    """Return the transform of a row of products. lanes: as in ``_of_input``."""
    @inlined
    def combined(tiles, at, apart):
        m1, m2 = load(tiles, at + apart), load(tiles, at + 2 * apart)
        return (load(tiles, at) + m1) + m2, (m1 - m2) - load(tiles, at + 3 * apart)

    @inlined
    def output_row(tiles, at, y0, y1, c, k, stop):
        plane, line = len(tiles) // 16, len(y0)
        for k in range(k, stop, lanes):
            for place in range(k, line, 2 * c):
                first = at + k + (place - k) // 2
                (l0, r0), (l1, r1) = combined(tiles, first, plane), combined(tiles, first + 4 * plane, plane)
                (l2, r2), (l3, r3) = (combined(tiles, first + 8 * plane, plane),
                                      combined(tiles, first + 12 * plane, plane))
                store(y0, place, (l0 + l1) + l2)
                store(y1, place, (l1 - l2) - l3)
                if place + c < line:
                    store(y0, place + c, (r0 + r1) + r2)
                    store(y1, place + c, (r1 - r2) - r3)

    return output_row


def _of_gradient(load, store, lanes):
    """Return the gradient's transform of a row of tiles. lanes: as in ``_of_input``."""
    @inlined
    def gradient_row(d0, d1, zeros, tiles, to, c, k, stop):
        plane, line = len(tiles) // 16, len(d0)
        for k in range(k, stop, lanes):
            nothing = load(zeros, 0)
            for place in range(k, line, 2 * c):
                at, a, b = to + k + (place - k) // 2, load(d0, place), load(d1, place)
                inside = place + c < line
                c0, c1 = (load(d0, place + c), load(d1, place + c)) if inside else (nothing, nothing)
                lines = (a, c0), (a + b, c0 + c1), (a - b, c0 - c1), (-b, -c1 if inside else nothing)
                for u in range(4):
                    e0, e1 = lines[u]
                    store(tiles, at + 4 * u * plane, e0)
                    store(tiles, at + (4 * u + 1) * plane, e0 + e1)
                    store(tiles, at + (4 * u + 2) * plane, e0 - e1)
                    store(tiles, at + (4 * u + 3) * plane, -e1)

    return gradient_row


@inlined
def _read(array, at):
    return array[at]


@inlined
def _write(array, at, number):
    array[at] = number


_input_vectors, _output_vectors, _gradient_vectors = (
    make(load, store, LANES) for make in (_of_input, _of_output, _of_gradient))
_input_numbers, _output_numbers, _gradient_numbers = (
    make(_read, _write, 1) for make in (_of_input, _of_output, _of_gradient))


@compiled
def input_tiles(x, first, rows, tiles):
    """Write B^T d B of the 4x4 tiles d, which overlap by two: x (n, height, width, c) -> tiles (16, count, c).

    B^T = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
    """
    n, height, width, c = x.shape
    images, written, whole = x.reshape(n, height, width * c), tiles.reshape(tiles.size), c - c % LANES
    down, along, zeros = (height + 1) // 2, (width + 1) // 2, np.zeros(width * c, x.dtype)
    for row in range(rows):
        image, i = (first + row) // down, 2 * ((first + row) % down)
        d0 = images[image, i - 1] if i > 0 else zeros
        d1 = images[image, i]
        d2 = images[image, i + 1] if i + 1 < height else zeros
        d3 = images[image, i + 2] if i + 2 < height else zeros
        _input_vectors(d0, d1, d2, d3, zeros, written, row * along * c, c, 0, whole)
        _input_numbers(d0, d1, d2, d3, zeros, written, row * along * c, c, whole, c)


@compiled
def output_tiles(products, first, rows, y):
    """Write A^T m A of the 4x4 tiles m: products (16, count, c) -> y (n, height, width, c), 2x2 pixels a tile.

    A^T = [[1, 1, 1, 0], [0, 1, -1, -1]]
    """
    n, height, width, c = y.shape
    images, read, whole = y.reshape(n, height, width * c), products.ravel(), c - c % LANES
    down, along, beyond = (height + 1) // 2, (width + 1) // 2, np.empty(width * c, y.dtype)
    for row in range(rows):
        image, i = (first + row) // down, 2 * ((first + row) % down)
        y0, y1 = images[image, i], images[image, i + 1] if i + 1 < height else beyond
        _output_vectors(read, row * along * c, y0, y1, c, 0, whole)
        _output_numbers(read, row * along * c, y0, y1, c, whole, c)


@compiled
def gradient_tiles(grad, first, rows, tiles):
    """Write A e A^T of the 2x2 tiles e: grad (n, height, width, c) -> tiles (16, count, c). Transpose of the above."""
    n, height, width, c = grad.shape
    images, written, whole = grad.reshape(n, height, width * c), tiles.reshape(tiles.size), c - c % LANES
    down, along, zeros = (height + 1) // 2, (width + 1) // 2, np.zeros(width * c, grad.dtype)
    for row in range(rows):
        image, i = (first + row) // down, 2 * ((first + row) % down)
        d0, d1 = images[image, i], images[image, i + 1] if i + 1 < height else zeros
        _gradient_vectors(d0, d1, zeros, written, row * along * c, c, 0, whole)
        _gradient_numbers(d0, d1, zeros, written, row * along * c, c, whole, c)
