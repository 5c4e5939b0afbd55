"""Rounding of the fast convolutions on random data, held to bounds that are derived, not guessed.

gamma(k) = k u / (1 - k u) bounds the relative error of a term that went through k roundings (Higham 2002, lemma 3.1).
Where every term of a sum went through at most k, it is off by at most gamma(k) times the sum of the terms' sizes.

Matrix products of patches: an element sums K products in any order: k = K (1 product, K - 1 additions).
Winograd: with T = |A|^T [sum (|G||g||G|^T) * (|B|^T |d| |B|)] |A| as the sum of sizes, a term's roundings are
2 (B^T d B: one addition a pass), 4 (G g G^T: two additions a pass, its products are exact), 1 + inputs - 1 (products
and their sum), 4 (A^T m A: two additions a pass): inputs + 10. The weight's gradient likewise: 2 + 2 + 1 + (tiles +
blocks) + 4 with the transposed maps. A fused multiply-add only leaves roundings out.
"""

import numpy as np
import pytest

from kernels.conv import definition, patches, winograd
from kernels.conv.kernel_tiles import kernel_gradient, kernel_tiles
from refimpl.enclosure.convolution import winograd_magnitude, winograd_weight_magnitude

G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
SHAPE = (3, 9, 6, 17)  # n, height, width, inputs
OUTPUTS = 19


def gamma(k, dtype):
    u = np.finfo(dtype).eps / 2
    return k * u / (1 - k * u)


def excess(result, exact, sizes, k):
    """Return the largest error / bound; the exact result is computed in float64 and has an error of its own."""
    bound = gamma(k, result.dtype) * sizes + gamma(2 * k + 20, np.float64) * sizes
    return np.max(np.abs(result - exact) / bound)


def arrays():
    rng = np.random.default_rng(7)
    shapes = SHAPE, (3, 3, SHAPE[3], OUTPUTS), (*SHAPE[:3], OUTPUTS)
    return [rng.standard_normal(s).astype(np.float32) for s in shapes]


def sizes_forward(x, weight):
    """Return the sum of sizes T for every element of the convolution."""
    return winograd_magnitude(*map(np.abs, float64(x, weight)))


def sizes_weight(grad, x):
    """Return |G|^T [sum over tiles of (|B|^T |d| |B|)^T (|A| |e| |A|^T)] |G|, the kernel's shape."""
    return winograd_weight_magnitude(*map(np.abs, float64(grad, x)))


def float64(*values):
    return [a.astype(np.float64) for a in values]


def test_winograd_forward_within_its_bound():
    x, weight, _ = arrays()
    exact = definition.convolve(*float64(x, weight), 1, 1)
    assert excess(winograd.convolve(x, weight), exact, sizes_forward(x, weight), SHAPE[3] + 10) <= 1


@pytest.mark.parametrize("block_bytes", [winograd.BLOCK_BYTES, 1])
def test_winograd_weight_gradient_within_its_bound(block_bytes, monkeypatch):
    monkeypatch.setattr(winograd, "BLOCK_BYTES", block_bytes)
    x, weight, grad = arrays()
    exact = definition.convolve_backward(*float64(grad, x, weight), 1, 1)[1]
    tiling = winograd.Tiling(x.shape, OUTPUTS, x.dtype)
    k = 9 + tiling.tile_rows * tiling.tiles_per_row + len(list(tiling.blocks()))
    assert excess(winograd.weight_gradient(grad, x), exact, sizes_weight(grad, x), k) <= 1


@pytest.mark.parametrize("stride", [1, 2])
def test_patches_within_their_bounds(stride):
    x, weight, grad = arrays()
    grad = np.ascontiguousarray(grad[:, ::stride, ::stride])
    x64, weight64, grad64 = float64(x, weight, grad)
    exact = definition.convolve(x64, weight64, stride, 1)
    sizes = definition.convolve(np.abs(x64), np.abs(weight64), stride, 1)
    assert excess(patches.convolve(x, weight, stride, 1), exact, sizes, 9 * SHAPE[3]) <= 1
    exact = definition.convolve_backward(grad64, x64, weight64, stride, 1)
    sizes = definition.convolve_backward(np.abs(grad64), np.abs(x64), np.abs(weight64), stride, 1)
    result = patches.convolve_backward(grad, x, weight, stride, 1)
    assert excess(result[0], exact[0], sizes[0], OUTPUTS + 9) <= 1
    assert excess(result[1], exact[1], sizes[1], int(np.prod(grad.shape[:3])) + SHAPE[0]) <= 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("inputs, outputs", [(2, 3), (17, 19), (16, 64), (33, 65)])
def test_the_kernels_transforms_are_products_with_g(dtype, inputs, outputs):
    """To the bit: each sum has three terms, of which only those of a row (1/2, 1/2, 1/2) round, from left to right."""
    rng, g = np.random.default_rng(1), G.astype(dtype)
    weight, total = (rng.standard_normal(s).astype(dtype) for s in ((3, 3, inputs, outputs), (16, inputs, outputs)))

    def along(matrix, values, axis):
        values = np.moveaxis(values, axis, 0)
        terms = [[factor * value for factor, value in zip(row, values)] for row in matrix]
        return np.moveaxis(np.stack([sum(row[1:], row[0]) for row in terms]), 0, axis)

    for turned, kernel in ((False, weight), (True, weight[::-1, ::-1].swapaxes(2, 3))):
        tiles = np.empty((16, *kernel.shape[2:]), dtype)
        kernel_tiles(weight, turned, tiles)
        assert np.array_equal(tiles, along(g, along(g, kernel, 0), 1).reshape(tiles.shape))
    grad = np.empty_like(weight)
    kernel_gradient(total, grad)
    assert np.array_equal(grad, along(g.T, along(g.T, total.reshape(4, 4, inputs, outputs), 0), 1))


def test_the_bounds_see_a_wrong_transform(monkeypatch):
    x, weight, grad = arrays()
    exact = definition.convolve(*float64(x, weight), 1, 1)
    sizes = sizes_forward(x, weight)
    exact_weight = definition.convolve_backward(*float64(grad, x, weight), 1, 1)[1]
    weight_sizes = sizes_weight(grad, x)
    wrong = G.copy()
    wrong[1, 1] *= 1 + 1e-3

    def wrong_tiles(weight, turned, tiles):
        tiles[:] = np.einsum("ua,abio,vb->uvio", wrong, weight, wrong).reshape(tiles.shape)

    def wrong_gradient(tiles, grad):
        grad[:] = np.einsum("ua,uvio,vb->abio", wrong, tiles.reshape(4, 4, *tiles.shape[1:]), wrong)

    monkeypatch.setattr(winograd, "kernel_tiles", wrong_tiles)
    monkeypatch.setattr(winograd, "kernel_gradient", wrong_gradient)
    assert excess(winograd.convolve(x, weight), exact, sizes, SHAPE[3] + 10) > 1
    assert excess(winograd.weight_gradient(grad, x), exact_weight, weight_sizes, 9 + 45 + 15) > 1
