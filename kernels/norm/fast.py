"""``definition`` in Numba: the same operations on each element; only the order of the float64 sums differs.

Every pass reads each image once and writes only the result. Sums go place by place, ``GROUP`` places at once, so that
the accumulators are stored less often.
"""

import numpy as np

from kernels.arrays import read_only
from kernels.compiled import compiled
from kernels.norm.definition import inverse_deviation

GROUP = 4


def as_rows(x):
    """Return the images as (places, channels), a view if they are contiguous."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[3])


def channel_statistics(x):
    rows = as_rows(x)
    mean = (channel_sums(rows) / len(rows)).astype(x.dtype)
    return mean, (squared_deviations(rows, mean) / len(rows)).astype(x.dtype)


def normalize(x, mean, variance, scale, offset, epsilon, relu=False):
    y = np.empty(x.shape, x.dtype)
    factor = scale * inverse_deviation(variance, epsilon)
    # read-only, as the mean of an evaluation is: one version of scale_rows is compiled, not two
    scale_rows(as_rows(x), read_only(mean), factor, read_only(offset), relu, y.reshape(-1, x.shape[3]))
    return y


def normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu=False):
    inverse = inverse_deviation(variance, epsilon)
    rows, grad_rows = as_rows(x), as_rows(grad)
    y_rows = as_rows(y) if relu else rows
    offset_sum, scale_sum = gradient_sums(grad_rows, rows, y_rows, mean, relu)
    grad_offset = offset_sum.astype(x.dtype)
    grad_scale = inverse * scale_sum.astype(x.dtype)
    m = x.dtype.type(len(rows))
    grad_x = np.empty(x.shape, x.dtype)
    gradient_rows(grad_rows, rows, y_rows, mean, scale * inverse, grad_offset / m, inverse * grad_scale / m, relu,
                  grad_x.reshape(-1, x.shape[3]))
    return grad_x, grad_scale, grad_offset


@compiled
def channel_sums(rows):
    """Return the sum of every channel: (places, c) -> (c,) float64."""
    places, c = rows.shape
    total = np.zeros(c, np.float64)
    grouped = places - places % GROUP
    for i in range(0, grouped, GROUP):
        a, b, d, e = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for k in range(c):
            total[k] += (np.float64(a[k]) + np.float64(b[k])) + (np.float64(d[k]) + np.float64(e[k]))
    for i in range(grouped, places):
        for k in range(c):
            total[k] += rows[i, k]
    return total


@compiled
def squared_deviations(rows, mean):
    """Return the sum of squared deviations from the mean of every channel: (c,) float64."""
    places, c = rows.shape
    total = np.zeros(c, np.float64)
    grouped = places - places % GROUP
    for i in range(0, grouped, GROUP):
        a, b, d, e = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
        for k in range(c):
            p, q, r, s = a[k] - mean[k], b[k] - mean[k], d[k] - mean[k], e[k] - mean[k]
            total[k] += (np.float64(p * p) + np.float64(q * q)) + (np.float64(r * r) + np.float64(s * s))
    for i in range(grouped, places):
        for k in range(c):
            p = rows[i, k] - mean[k]
            total[k] += p * p
    return total


@compiled
def scale_rows(rows, mean, factor, offset, relu, y):
    """Write (rows - mean) * factor + offset, at least 0 with ``relu``."""
    places, c = rows.shape
    for i in range(places):
        source, target = rows[i], y[i]
        if relu:
            for k in range(c):
                value = (source[k] - mean[k]) * factor[k] + offset[k]
                target[k] = max(value, rows.dtype.type(0))
        else:
            for k in range(c):
                target[k] = (source[k] - mean[k]) * factor[k] + offset[k]


@compiled
def gradient_sums(grad, rows, y, mean, relu):
    """Return sum g and sum g (x - mean) of every channel: (c,) float64 each; g is 0 where relu and y <= 0."""
    places, c = rows.shape
    offset_sum, scale_sum = np.zeros(c, np.float64), np.zeros(c, np.float64)
    zero = rows.dtype.type(0)
    for i in range(places):
        upstream, source, shown = grad[i], rows[i], y[i]
        for k in range(c):
            g = upstream[k] if not relu or shown[k] > zero else zero
            offset_sum[k] += g
            scale_sum[k] += g * (source[k] - mean[k])
    return offset_sum, scale_sum


@compiled
def gradient_rows(grad, rows, y, mean, factor, mean_grad, slope, relu, grad_x):
    """Write factor * (g - mean_grad - (rows - mean) * slope)."""
    places, c = rows.shape
    zero = rows.dtype.type(0)
    for i in range(places):
        upstream, source, shown, target = grad[i], rows[i], y[i], grad_x[i]
        for k in range(c):
            g = upstream[k] if not relu or shown[k] > zero else zero
            target[k] = factor[k] * (g - mean_grad[k] - (source[k] - mean[k]) * slope[k])
