"""``definition`` for 3x3 kernels by Winograd's F(2x2, 3x3): a 2x2 tile of the result needs 16 products instead of 36.

    Y = A^T [ sum over inputs of (G g G^T) * (B^T d B) ] A        d: 4x4 tile of the image, g: 3x3 kernel

(Lavin and Gray 2015, equation 8 and section 4.1). Different elements (u, v) of the transformed tiles are never
combined, so the sum over inputs is 16 matrix products of (tiles, inputs) with (inputs, outputs). A and B contain 0 and
+-1, G 0, 1 and +-1/2, so in the transforms only additions round. The weight's gradient is the transpose of these maps:

    g' = G^T [ sum over tiles of (B^T d B)^T (A Y' A^T) ] G
"""

import numpy as np

from kernels.conv.kernel_tiles import kernel_gradient, kernel_tiles
from kernels.conv.transforms import gradient_tiles, input_tiles, output_tiles

BLOCK_BYTES = 2**19
"""Bytes of one block's transformed tiles: half of a usual second-level cache; the other half holds their products."""
SPARE = 64
"""Elements after each of the 16 planes of a block: planes a power of two apart would compete for cache sets."""


class Tiling:
    """The 2x2 tiles of n images, in blocks of whole tile rows. Block sizes depend only on shapes and dtype."""

    def __init__(self, shape, outputs, dtype):
        n, height, width, inputs = shape
        self.tile_rows, self.tiles_per_row = n * ((height + 1) // 2), (width + 1) // 2
        row_bytes = 16 * self.tiles_per_row * max(inputs, outputs) * np.dtype(dtype).itemsize
        self.rows = max(1, min(BLOCK_BYTES // max(row_bytes, 1), self.tile_rows))

    def buffer(self, channels, dtype):
        """Return memory for the transformed tiles of one block and SPARE elements: (16, tiles, channels)."""
        return np.empty((16, self.rows * self.tiles_per_row + -(-SPARE // channels), channels), dtype)

    def blocks(self):
        """Yield (first tile row, tile rows, tiles) of each block."""
        for first in range(0, self.tile_rows, self.rows):
            count = min(self.rows, self.tile_rows - first)
            yield first, count, count * self.tiles_per_row


def convolve(x, weight, turned=False):
    """Return the 3x3 convolution of ``x``, stride 1, padding 1 (see ``definition.convolve``). Local.

    turned: use the kernel turned by 180 degrees, with inputs and outputs swapped: this gives the gradient of x.
    """
    n, height, width, inputs = x.shape
    outputs = weight.shape[2 if turned else 3]
    transformed = np.empty((16, inputs, outputs), weight.dtype)
    kernel_tiles(np.ascontiguousarray(weight), turned, transformed)
    tiling = Tiling(x.shape, outputs, x.dtype)
    tiles, products = tiling.buffer(inputs, x.dtype), tiling.buffer(outputs, x.dtype)
    y = np.empty((n, height, width, outputs), x.dtype)
    for first, rows, count in tiling.blocks():
        input_tiles(x, first, rows, tiles)
        np.matmul(tiles[:, :count], transformed, out=products[:, :count])
        output_tiles(products, first, rows, y)
    return y


def weight_gradient(grad, x):
    """Return the gradient of the 3x3 kernel, stride 1, padding 1 (see ``definition.convolve_backward``). Local."""
    inputs, outputs = x.shape[3], grad.shape[3]
    tiling = Tiling(x.shape, outputs, x.dtype)
    tiles, grad_tiles = tiling.buffer(inputs, x.dtype), tiling.buffer(outputs, x.dtype)
    total = np.zeros((16, inputs, outputs), x.dtype)
    product = np.empty_like(total)
    for first, rows, count in tiling.blocks():
        input_tiles(x, first, rows, tiles)
        gradient_tiles(grad, first, rows, grad_tiles)
        np.matmul(tiles[:, :count].swapaxes(1, 2), grad_tiles[:, :count], out=product)
        total += product
    grad_weight = np.empty((3, 3, inputs, outputs), x.dtype)
    kernel_gradient(total, grad_weight)
    return grad_weight
