"""``definition`` in Numba, bit for bit: every image is read once, and nothing is written but the result."""

import numpy as np

from kernels.compiled import compiled


def max_pool(x):
    """See ``definition.max_pool``."""
    n, height, width, channels = x.shape
    y = np.empty((n, height // 2, width // 2, channels), x.dtype)
    largest(np.ascontiguousarray(x), y)
    return y


def max_pool_backward(grad, x):
    """See ``definition.max_pool_backward``."""
    grad_x = np.empty(x.shape, x.dtype)
    to_the_largest(np.ascontiguousarray(grad), np.ascontiguousarray(x), grad_x)
    return grad_x


@compiled(inline="always")
def larger(a, b):
    """Return the larger number, the first of equal ones; NaN if one is."""
    return b if b > a or b != b else a


@compiled
def largest(x, y):
    """Write the largest of every window."""
    n, down, along, channels = y.shape
    for image in range(n):
        for i in range(down):
            for j in range(along):
                a, b = x[image, 2 * i, 2 * j], x[image, 2 * i, 2 * j + 1]
                c, d = x[image, 2 * i + 1, 2 * j], x[image, 2 * i + 1, 2 * j + 1]
                target = y[image, i, j]
                for k in range(channels):
                    target[k] = larger(larger(a[k], b[k]), larger(c[k], d[k]))


@compiled
def to_the_largest(grad, x, grad_x):
    """Write the gradient of every element: its window's, or 0."""
    n, down, along, channels = grad.shape
    zero = x.dtype.type(0)
    for image in range(n):
        for i in range(down):
            for j in range(along):
                a, b = x[image, 2 * i, 2 * j], x[image, 2 * i, 2 * j + 1]
                c, d = x[image, 2 * i + 1, 2 * j], x[image, 2 * i + 1, 2 * j + 1]
                to_a, to_b = grad_x[image, 2 * i, 2 * j], grad_x[image, 2 * i, 2 * j + 1]
                to_c, to_d = grad_x[image, 2 * i + 1, 2 * j], grad_x[image, 2 * i + 1, 2 * j + 1]
                upstream = grad[image, i, j]
                for k in range(channels):
                    lower = larger(c[k], d[k]) > larger(a[k], b[k])
                    above, below = zero if lower else upstream[k], upstream[k] if lower else zero
                    to_a[k], to_b[k] = zero if b[k] > a[k] else above, above if b[k] > a[k] else zero
                    to_c[k], to_d[k] = zero if d[k] > c[k] else below, below if d[k] > c[k] else zero
        grad_x[image, 2 * down:] = zero
        grad_x[image, :, 2 * along:] = zero
