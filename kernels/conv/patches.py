"""Convolution as matrix products of patches (im2col), block by block: any kernel, stride and padding.

The patches of a block of images, (places, k k inputs), stay in the second-level cache between the copy that makes
them and the product that reads them (Chellapilla, Puri, Simard 2006).
"""

import numpy as np

from kernels.conv.definition import pad, taps
from kernels.conv.shapes import output_shape

BLOCK_BYTES = 2**19


def blocks(n, image_bytes):
    """Yield slices of the batch whose patches fit in ``BLOCK_BYTES``, at least one image each. Local."""
    step = max(1, BLOCK_BYTES // max(image_bytes, 1))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def gather(padded, kernel, stride, height, width):
    """Return the patches of padded images: (n height width, k k inputs); a view where the kernel is 1x1. Local."""
    n, inputs = padded.shape[0], padded.shape[3]
    if kernel == 1:
        return padded[:, : stride * height : stride, : stride * width : stride].reshape(-1, inputs)
    patches = np.empty((n, height, width, kernel, kernel, inputs), padded.dtype)
    for a, b, seen in taps(padded, kernel, stride, height, width):
        patches[:, :, :, a, b] = seen
    return patches.reshape(-1, kernel * kernel * inputs)


def convolve(x, weight, stride, padding):
    """See ``definition.convolve``."""
    y = np.empty(output_shape(x, weight, stride, padding), x.dtype)
    _, height, width, outputs = y.shape
    kernel, matrix = weight.shape[0], weight.reshape(-1, outputs)
    for block in blocks(len(x), height * width * matrix.shape[0] * x.itemsize):
        seen = gather(pad(x[block], padding), kernel, stride, height, width)
        np.matmul(seen, matrix, out=y[block].reshape(-1, outputs))
    return y


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    """See ``definition.convolve_backward``."""
    _, height, width, outputs = grad.shape
    kernel, matrix = weight.shape[0], weight.reshape(-1, outputs)
    grad_matrix = np.zeros_like(matrix)
    grad_x = np.empty_like(x) if input_gradient else None
    for block in blocks(len(x), height * width * matrix.shape[0] * x.itemsize):
        padded, grad_rows = pad(x[block], padding), grad[block].reshape(-1, outputs)
        grad_matrix += gather(padded, kernel, stride, height, width).T @ grad_rows
        if input_gradient:
            grad_seen = (grad_rows @ matrix.T).reshape(-1, height, width, kernel, kernel, x.shape[3])
            padded[:] = 0
            for a, b, seen in taps(padded, kernel, stride, height, width):
                seen += grad_seen[:, :, :, a, b]
            grad_x[block] = padded[:, padding : padding + x.shape[1], padding : padding + x.shape[2]]
    return grad_x, grad_matrix.reshape(weight.shape)
