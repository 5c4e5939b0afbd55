"""``definition`` in Numba, bit for bit. It reads every image once and writes only the result."""

import numpy as np

from kernels.compiled import compiled


def max_pool(x):
    n, height, width, channels = x.shape
    y = np.empty((n, height // 2, width // 2, channels), x.dtype)
    largest(np.ascontiguousarray(x), y)
    return y


def max_pool_backward(grad, x):
    grad_x = np.empty(x.shape, x.dtype)
    to_the_largest(np.ascontiguousarray(grad), np.ascontiguousarray(x), grad_x)
    return grad_x


@compiled(inline="always")
def larger(a, b):
    """Return the larger number, the first of equal ones; NaN if one is."""
    return b if b > a or b != b else a


@compiled
def largest(x, y):
    """Write the maximum of every window."""
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
    """Write the gradient of every element: its window's, or 0. Rows have one flat index, so that loops vectorise."""
    n, down, along, channels = grad.shape
    zero = x.dtype.type(0)
    for image in range(n):
        for i in range(down):
            upper, lower = x[image, 2 * i].reshape(-1), x[image, 2 * i + 1].reshape(-1)
            to_upper, to_lower = grad_x[image, 2 * i].reshape(-1), grad_x[image, 2 * i + 1].reshape(-1)
            upstream = grad[image, i].reshape(-1)
            for j in range(along):
                left, right = 2 * j * channels, (2 * j + 1) * channels
                for k in range(channels):
                    a, b, c, d = upper[left + k], upper[right + k], lower[left + k], lower[right + k]
                    g = upstream[j * channels + k]
                    is_lower = larger(c, d) > larger(a, b)
                    above, below = zero if is_lower else g, g if is_lower else zero
                    to_upper[left + k] = zero if b > a else above
                    to_upper[right + k] = above if b > a else zero
                    to_lower[left + k] = zero if d > c else below
                    to_lower[right + k] = below if d > c else zero
        grad_x[image, 2 * down:] = zero
        grad_x[image, :, 2 * along:] = zero
