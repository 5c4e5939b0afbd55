"""The kernel's transforms of Winograd's convolution F(2x2, 3x3), in Numba: G g G^T, and its transpose G^T t G.

    G = [[1, 0, 0], [1/2, 1/2, 1/2], [1/2, -1/2, 1/2], [0, 0, 1]]

Sums go from left to right. The 9 or 16 planes of a wide layer lie a power of two apart and compete for the same cache
sets. So each plane is read and written a run of elements at a time.
"""

import numpy as np

from kernels.compiled import compiled

ROWS, RUN = 16, 64


@compiled
def kernel_tiles(weight, turned, tiles):
    """Write G g G^T of every kernel g: weight (3, 3, inputs, outputs) -> tiles (16, inputs, outputs).

    turned: use the kernels turned by 180 degrees; their convolution gives the gradient of x: (16, outputs, inputs).
    """
    inputs, outputs = weight.shape[2:]
    rows, columns = (outputs, inputs) if turned else (inputs, outputs)
    planes, written = weight.reshape(9, -1), tiles.reshape(16, -1)
    seen, lines = np.empty((ROWS, 9, RUN), weight.dtype), np.empty((3, 4, RUN), weight.dtype)
    for above in range(0, rows, ROWS):
        for left in range(0, columns, RUN):
            many, count = min(ROWS, rows - above), min(RUN, columns - left)
            for p in range(9):
                if turned:
                    for k in range(count):
                        source = planes[8 - p, (left + k) * outputs + above:]
                        for row in range(many):
                            seen[row, p, k] = source[row]
                else:
                    for row in range(many):
                        for k in range(count):
                            seen[row, p, k] = planes[p, (above + row) * outputs + left + k]
            for row in range(many):
                at = (above + row) * columns + left
                for b in range(3):
                    spread(seen[row, b::3], count, lines[b])
                for u in range(4):
                    spread(lines[:, u], count, written[4 * u:4 * u + 4, at:])


@compiled
def spread(g, count, result):
    """Write G g: from the first ``count`` elements of three lines to those of four lines."""
    half = g.dtype.type(0.5)
    g0, g1, g2, r0, r1, r2, r3 = g[0], g[1], g[2], result[0], result[1], result[2], result[3]
    for k in range(count):
        r0[k] = g0[k]
        r1[k] = half * g0[k] + half * g1[k] + half * g2[k]
        r2[k] = half * g0[k] - half * g1[k] + half * g2[k]
        r3[k] = g2[k]


@compiled
def kernel_gradient(tiles, grad):
    """Write G^T t G, the transpose of ``kernel_tiles``: tiles (16, inputs, outputs) -> grad (3, 3, inputs, outputs)."""
    read, written = tiles.reshape(16, -1), grad.reshape(9, -1)
    lines = np.empty((4, 3, RUN), grad.dtype)
    for first in range(0, read.shape[1], RUN):
        count = min(RUN, read.shape[1] - first)
        for v in range(4):
            gathered(read[v::4, first:], count, lines[v])
        for a in range(3):
            gathered(lines[:, a], count, written[3 * a:3 * a + 3, first:])


@compiled
def gathered(t, count, result):
    """Write G^T t: from the first ``count`` elements of four lines to those of three lines."""
    half = t.dtype.type(0.5)
    t0, t1, t2, t3, r0, r1, r2 = t[0], t[1], t[2], t[3], result[0], result[1], result[2]
    for k in range(count):
        r0[k] = t0[k] + half * t1[k] + half * t2[k]
        r1[k] = half * t1[k] - half * t2[k]
        r2[k] = half * t1[k] + half * t2[k] + t3[k]
