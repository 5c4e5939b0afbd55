"""The transforms of Winograd's convolution F(2x2, 3x3), Numba: images to 4x4 tiles and back.

Each works in two passes, like the two products in B^T d B: first down the columns of the image, into four lines as long
as an image row, then along the lines. Tiles are numbered row by row, image by image, so that element (u, v) of a row of
tiles is contiguous. A block starts at tile row ``first``. Pixels outside the image are zero and are not stored.
"""

import numpy as np

from kernels.compiled import compiled


@compiled
def input_tiles(x, first, rows, tiles):
    """Write B^T d B of the 4x4 tiles d, which overlap by two: x (n, height, width, c) -> tiles (16, count, c).

    B^T = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
    """
    n, height, width, c = x.shape
    images, elements = x.reshape(n, height, width * c), tiles.reshape(16, -1)
    down, along = (height + 1) // 2, (width + 1) // 2
    zeros, lines = np.zeros(width * c, x.dtype), np.zeros((4, (2 * along + 2) * c), x.dtype)
    l0, l1, l2, l3 = lines[0, c:], lines[1, c:], lines[2, c:], lines[3, c:]
    for row in range(rows):
        image, i = (first + row) // down, 2 * ((first + row) % down)
        d0 = images[image, i - 1] if i > 0 else zeros
        d1 = images[image, i]
        d2 = images[image, i + 1] if i + 1 < height else zeros
        d3 = images[image, i + 2] if i + 2 < height else zeros
        for k in range(width * c):
            l0[k] = d0[k] - d2[k]
            l1[k] = d1[k] + d2[k]
            l2[k] = d2[k] - d1[k]
            l3[k] = d1[k] - d3[k]
        for u in range(4):
            line, run = lines[u], slice(row * along * c, (row + 1) * along * c)
            v0, v1 = elements[4 * u, run], elements[4 * u + 1, run]
            v2, v3 = elements[4 * u + 2, run], elements[4 * u + 3, run]
            for j in range(along):
                for k in range(c):
                    e0, e1 = line[2 * j * c + k], line[(2 * j + 1) * c + k]
                    e2, e3 = line[(2 * j + 2) * c + k], line[(2 * j + 3) * c + k]
                    v0[j * c + k] = e0 - e2
                    v1[j * c + k] = e1 + e2
                    v2[j * c + k] = e2 - e1
                    v3[j * c + k] = e1 - e3


@compiled
def output_tiles(products, first, rows, y):
    """Write A^T m A of the 4x4 tiles m: products (16, count, c) -> y (n, height, width, c), 2x2 pixels a tile.

    A^T = [[1, 1, 1, 0], [0, 1, -1, -1]]
    """
    n, height, width, c = y.shape
    images, elements = y.reshape(n, height, width * c), products.reshape(16, -1)
    down, along = (height + 1) // 2, (width + 1) // 2
    lines, beyond = np.empty((4, 2 * along * c), y.dtype), np.empty(width * c, y.dtype)
    l0, l1, l2, l3 = lines[0], lines[1], lines[2], lines[3]
    for row in range(rows):
        for u in range(4):
            line, run = lines[u], slice(row * along * c, (row + 1) * along * c)
            m0, m1 = elements[4 * u, run], elements[4 * u + 1, run]
            m2, m3 = elements[4 * u + 2, run], elements[4 * u + 3, run]
            for j in range(along):
                for k in range(c):
                    p = j * c + k
                    line[2 * j * c + k] = (m0[p] + m1[p]) + m2[p]
                    line[(2 * j + 1) * c + k] = (m1[p] - m2[p]) - m3[p]
        image, i = (first + row) // down, 2 * ((first + row) % down)
        y0 = images[image, i]
        y1 = images[image, i + 1] if i + 1 < height else beyond
        for k in range(width * c):
            y0[k] = (l0[k] + l1[k]) + l2[k]
            y1[k] = (l1[k] - l2[k]) - l3[k]


@compiled
def gradient_tiles(grad, first, rows, tiles):
    """Write A e A^T of the 2x2 tiles e: grad (n, height, width, c) -> tiles (16, count, c). Transpose of the above."""
    n, height, width, c = grad.shape
    images, elements = grad.reshape(n, height, width * c), tiles.reshape(16, -1)
    down, along = (height + 1) // 2, (width + 1) // 2
    zeros, lines = np.zeros(width * c, grad.dtype), np.zeros((4, 2 * along * c), grad.dtype)
    l0, l1, l2, l3 = lines[0], lines[1], lines[2], lines[3]
    for row in range(rows):
        image, i = (first + row) // down, 2 * ((first + row) % down)
        d0 = images[image, i]
        d1 = images[image, i + 1] if i + 1 < height else zeros
        for k in range(width * c):
            l0[k] = d0[k]
            l1[k] = d0[k] + d1[k]
            l2[k] = d0[k] - d1[k]
            l3[k] = -d1[k]
        for u in range(4):
            line, run = lines[u], slice(row * along * c, (row + 1) * along * c)
            v0, v1 = elements[4 * u, run], elements[4 * u + 1, run]
            v2, v3 = elements[4 * u + 2, run], elements[4 * u + 3, run]
            for j in range(along):
                for k in range(c):
                    e0, e1 = line[2 * j * c + k], line[(2 * j + 1) * c + k]
                    v0[j * c + k] = e0
                    v1[j * c + k] = e0 + e1
                    v2[j * c + k] = e0 - e1
                    v3[j * c + k] = -e1
