"""``definition`` in Numba: the same operations on each element; only the order of the float64 sums differs.

Every pass reads each image once and writes only the result. Sums go place by place, ``GROUP`` places at once, so that
the accumulators are stored less often.
"""

import numpy as np

from kernels.arrays import read_only
from kernels.compiled import compiled
from kernels.norm.definition import inverse_deviation
from kernels.vectors import LANES, load, store, where_positive, wide

GROUP = 4
NEAR = 64  # places that stay in the first-level cache, from which all channels are added up


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
    upstream, source, shown, whole = grad.ravel(), rows.ravel(), y.ravel(), c - c % LANES
    zero = rows.dtype.type(0)
    for first in range(0, places, NEAR):
        last = min(first + NEAR, places)
        for k in range(0, whole, LANES):
            offset, scale, middle = load(offset_sum, k), load(scale_sum, k), load(mean, k)
            for at in range(first * c + k, last * c, c):
                g = load(upstream, at)
                if relu:
                    g = where_positive(load(shown, at), g)
                offset = offset + wide(g)
                scale = scale + wide(g * (load(source, at) - middle))
            store(offset_sum, k, offset)
            store(scale_sum, k, scale)
        for i in range(first, last):
            for k in range(whole, c):
                value = grad[i, k]
                value = value if not relu or y[i, k] > zero else zero
                offset_sum[k] += value
                scale_sum[k] += value * (rows[i, k] - mean[k])
    return offset_sum, scale_sum


@compiled
def gradient_rows(grad, rows, y, mean, factor, mean_grad, slope, relu, grad_x):
    """Write factor * (g - mean_grad - (rows - mean) * slope)."""
    places, c = rows.shape
    upstream, source, shown, whole = grad.ravel(), rows.ravel(), y.ravel(), c - c % LANES
    zero, target = rows.dtype.type(0), grad_x.reshape(places * c)
    for first in range(0, places * c, c):
        for k in range(0, whole, LANES):
            g = load(upstream, first + k)
            if relu:
                g = where_positive(load(shown, first + k), g)
            deviation = load(source, first + k) - load(mean, k)
            store(target, first + k, load(factor, k) * (g - load(mean_grad, k) - deviation * load(slope, k)))
        for k in range(whole, c):
            value = upstream[first + k]
            value = value if not relu or shown[first + k] > zero else zero
            target[first + k] = factor[k] * (value - mean_grad[k] - (source[first + k] - mean[k]) * slope[k])
