"""The transforms of Winograd's convolution F(2x2, 3x3), Numba: images to 4x4 tiles and back.

Each works in two passes, as the matrix products B^T d B do: down the columns of the image into four lines as long as
an image row, then along the lines. Both have contiguous inner loops. Tiles are numbered row by row, image by image;
a block starts at tile row ``first``. Rows and columns beyond the image count as zeros and are never stored.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def input_tiles(x, first, rows, tiles):
    """Write B^T d B of the 4x4 tiles d, which overlap by two: x (n, height, width, c) -> tiles (16, count, c).

    B^T = [[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]]
    """
    n, height, width, c = x.shape
    images = x.reshape(n, height, width * c)
    down, along = (height + 1) // 2, (width + 1) // 2
    zeros = np.zeros(width * c, x.dtype)
    lines = np.zeros((4, (2 * along + 2) * c), x.dtype)
    tile = 0
    for row in range(first, first + rows):
        image, i = row // down, 2 * (row % down)
        d0 = images[image, i - 1] if i > 0 else zeros
        d1 = images[image, i]
        d2 = images[image, i + 1] if i + 1 < height else zeros
        d3 = images[image, i + 2] if i + 2 < height else zeros
        l0, l1 = lines[0, c : c + width * c], lines[1, c : c + width * c]
        l2, l3 = lines[2, c : c + width * c], lines[3, c : c + width * c]
        for k in range(width * c):
            l0[k] = d0[k] - d2[k]
            l1[k] = d1[k] + d2[k]
            l2[k] = d2[k] - d1[k]
            l3[k] = d1[k] - d3[k]
        for j in range(along):
            for u in range(4):
                line = lines[u, 2 * j * c : (2 * j + 4) * c]
                e0, e1, e2, e3 = line[:c], line[c : 2 * c], line[2 * c : 3 * c], line[3 * c :]
                v0, v1, v2, v3 = tiles[4 * u, tile], tiles[4 * u + 1, tile], tiles[4 * u + 2, tile], tiles[4 * u + 3, tile]
                for k in range(c):
                    v0[k] = e0[k] - e2[k]
                    v1[k] = e1[k] + e2[k]
                    v2[k] = e2[k] - e1[k]
                    v3[k] = e1[k] - e3[k]
            tile += 1


@njit(cache=True, nogil=True, error_model="numpy")
def output_tiles(products, first, rows, y):
    """Write A^T m A of the 4x4 tiles m: products (16, count, c) -> y (n, height, width, c), 2x2 pixels a tile.

    A^T = [[1, 1, 1, 0], [0, 1, -1, -1]]
    """
    n, height, width, c = y.shape
    images = y.reshape(n, height, width * c)
    down, along = (height + 1) // 2, (width + 1) // 2
    lines = np.empty((4, 2 * along * c), y.dtype)
    beyond = np.empty(width * c, y.dtype)
    tile = 0
    for row in range(first, first + rows):
        for j in range(along):
            for u in range(4):
                m0, m1 = products[4 * u, tile], products[4 * u + 1, tile]
                m2, m3 = products[4 * u + 2, tile], products[4 * u + 3, tile]
                line = lines[u, 2 * j * c : (2 * j + 2) * c]
                e0, e1 = line[:c], line[c:]
                for k in range(c):
                    e0[k] = (m0[k] + m1[k]) + m2[k]
                    e1[k] = (m1[k] - m2[k]) - m3[k]
            tile += 1
        image, i = row // down, 2 * (row % down)
        y0 = images[image, i]
        y1 = images[image, i + 1] if i + 1 < height else beyond
        l0, l1, l2, l3 = lines[0], lines[1], lines[2], lines[3]
        for k in range(width * c):
            y0[k] = (l0[k] + l1[k]) + l2[k]
            y1[k] = (l1[k] - l2[k]) - l3[k]


@njit(cache=True, nogil=True, error_model="numpy")
def gradient_tiles(grad, first, rows, tiles):
    """Write A e A^T of the 2x2 tiles e: grad (n, height, width, c) -> tiles (16, count, c). Transpose of the above."""
    n, height, width, c = grad.shape
    images = grad.reshape(n, height, width * c)
    down, along = (height + 1) // 2, (width + 1) // 2
    zeros = np.zeros(width * c, grad.dtype)
    lines = np.zeros((4, 2 * along * c), grad.dtype)
    tile = 0
    for row in range(first, first + rows):
        image, i = row // down, 2 * (row % down)
        d0 = images[image, i]
        d1 = images[image, i + 1] if i + 1 < height else zeros
        l0, l1, l2, l3 = lines[0], lines[1], lines[2], lines[3]
        for k in range(width * c):
            l0[k] = d0[k]
            l1[k] = d0[k] + d1[k]
            l2[k] = d0[k] - d1[k]
            l3[k] = -d1[k]
        for j in range(along):
            for u in range(4):
                line = lines[u, 2 * j * c : (2 * j + 2) * c]
                e0, e1 = line[:c], line[c:]
                v0, v1, v2, v3 = tiles[4 * u, tile], tiles[4 * u + 1, tile], tiles[4 * u + 2, tile], tiles[4 * u + 3, tile]
                for k in range(c):
                    v0[k] = e0[k]
                    v1[k] = e0[k] + e1[k]
                    v2[k] = e0[k] - e1[k]
                    v3[k] = -e1[k]
            tile += 1
