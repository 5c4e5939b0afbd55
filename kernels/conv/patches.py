"""``definition`` as matrix products of patches (im2col), block by block: any kernel, stride and padding.

The patches of a block of images, (places, k k inputs), are copied and then multiplied while they are still in the
second-level cache (Chellapilla, Puri, Simard 2006).
"""

import numpy as np

from kernels.compiled import compiled
from kernels.conv.shapes import output_shape
from kernels.vectors import LANES, load, store

BLOCK_BYTES = 2**19


def convolve(x, weight, stride, padding):
    y = np.empty(output_shape(x, weight, stride, padding), x.dtype)
    matrix = weight.reshape(-1, weight.shape[3])
    patches = patches_of_a_block(x, y.shape, weight.shape[0])
    for block in blocks(len(x), len(patches)):
        rows = y[block].reshape(-1, weight.shape[3])
        np.matmul(gathered(x[block], patches, stride, padding), matrix, out=rows)
    return y


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    matrix = weight.reshape(-1, weight.shape[3])
    grad_matrix = np.zeros_like(matrix)
    grad_x = np.zeros_like(x) if input_gradient else None
    patches = patches_of_a_block(x, grad.shape, weight.shape[0])
    for block in blocks(len(x), len(patches)):
        grad_rows = grad[block].reshape(-1, weight.shape[3])
        seen = gathered(x[block], patches, stride, padding)
        grad_matrix += seen.T @ grad_rows
        if input_gradient:
            np.matmul(grad_rows, matrix.T, out=seen)
            scatter_add(patches[: len(x[block])], stride, padding, grad_x[block])
    return grad_x, grad_matrix.reshape(weight.shape)


def patches_of_a_block(x, shape, kernel):
    """Return memory for the patches of the images that fit in ``BLOCK_BYTES``, at least one image."""
    image = (*shape[1:3], kernel, kernel, x.shape[3])
    images = max(1, min(len(x), BLOCK_BYTES // max(int(np.prod(image)) * x.itemsize, 1)))
    return np.empty((images, *image), x.dtype)


def blocks(n, step):
    """Return slices of at most ``step`` images that cover the batch."""
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def gathered(x, patches, stride, padding):
    """Write the patches of ``x`` and return them as a matrix: (places, k k inputs)."""
    gather(x, stride, padding, patches)
    return patches[: len(x)].reshape(-1, patches[0, 0, 0].size)


@compiled
def gather(x, stride, padding, patches):
    """Write the patch at every place: x (n, h, w, c) -> patches (n, h', w', k, k, c), zero outside the image."""
    n, height, width, c = x.shape
    _, places_down, places_along, kernel, _, _ = patches.shape
    images = x.reshape(n, height, width * c)
    seen = patches.reshape(len(patches), places_down, places_along, kernel, kernel * c)
    for image in range(n):
        for i in range(places_down):
            for j in range(places_along):
                left = (j * stride - padding) * c
                start, stop = max(0, -left), max(0, min(kernel * c, width * c - left))
                for a in range(kernel):
                    row, target = i * stride + a - padding, seen[image, i, j, a]
                    if row < 0 or row >= height or start >= stop:
                        target[:] = 0
                        continue
                    source = images[image, row, left + start :]
                    target[:start] = 0
                    for k in range(stop - start):  # slices of slices are slow in Numba and take 2 s to compile
                        target[start + k] = source[k]
                    target[stop:] = 0


@compiled
def scatter_add(patches, stride, padding, x):
    """Add every patch to its place in x, in order of places: the transpose of ``gather``."""
    n, height, width, c = x.shape
    _, places_down, places_along, kernel, _, _ = patches.shape
    source, target, line, at = patches.ravel(), x.reshape(x.size), kernel * c, 0
    for image in range(n):
        for i in range(places_down):
            for j in range(places_along):
                left = (j * stride - padding) * c
                start, stop = max(0, -left), max(0, min(line, width * c - left))
                for a in range(kernel):
                    row = i * stride + a - padding
                    if 0 <= row < height and start < stop:
                        seen, whole = (image * height + row) * width * c + left, stop - (stop - start) % LANES
                        for k in range(start, whole, LANES):
                            store(target, seen + k, load(target, seen + k) + load(source, at + k))
                        for k in range(whole, stop):
                            target[seen + k] += source[at + k]
                    at += line
