"""Plain array code for batch normalisation: the oracle, never optimised (Ioffe and Szegedy 2015).

Sums over images and pixels are accumulated in float64 for every dtype.
"""

from kernels.arrays import array_module

PLACES = (0, 1, 2)
"""The axes summed over: images, rows, columns."""


def channel_statistics(x):
    """Return mean_c = sum x_c / m and variance_c = sum (x_c - mean_c)^2 / m over the m places of channel c.

    x: (n, height, width, c).  mean, variance: (c,), dtype of x. The variance has divisor m (the
    population's); PyTorch's running variance is m / (m - 1) times as large.
    """
    xp = array_module(x)
    places = x.size // x.shape[3]
    mean = (xp.sum(x, axis=PLACES, dtype=xp.float64) / places).astype(x.dtype)
    deviation = x - mean
    variance = (xp.sum(deviation * deviation, axis=PLACES, dtype=xp.float64) / places).astype(x.dtype)
    return mean, variance


def inverse_deviation(variance, epsilon):
    """Return 1 / sqrt(variance + epsilon): (c,), dtype of variance."""
    xp = array_module(variance)
    return 1 / xp.sqrt(variance + xp.asarray(epsilon, dtype=variance.dtype))


def normalize(x, mean, variance, scale, offset, epsilon, relu=False):
    """Return y = (x - mean) * (scale / sqrt(variance + epsilon)) + offset; with ``relu``, max(y, 0).

    x, y: (n, height, width, c).  mean, variance, scale, offset: (c,).
    """
    y = (x - mean) * (scale * inverse_deviation(variance, epsilon)) + offset
    return array_module(x).maximum(y, 0) if relu else y


def normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu=False):
    """Return the gradients of x, scale and offset, for mean and variance computed from x.

    g = grad, with ``relu`` only where y > 0;  s = 1 / sqrt(variance + epsilon);  m places
    offset' = sum g        scale' = s * sum g (x - mean)
    x' = scale s (g - offset' / m - (x - mean) s scale' / m)

    grad, x, y: (n, height, width, c); y is the result of ``normalize``, read only with ``relu``.
    """
    xp = array_module(grad, x)
    places = x.size // x.shape[3]
    inverse = inverse_deviation(variance, epsilon)
    deviation = x - mean
    g = xp.where(y > 0, grad, xp.zeros((), grad.dtype)) if relu else grad
    grad_offset = xp.sum(g, axis=PLACES, dtype=xp.float64).astype(x.dtype)
    grad_scale = inverse * xp.sum(g * deviation, axis=PLACES, dtype=xp.float64).astype(x.dtype)
    m = xp.asarray(places, dtype=x.dtype)
    grad_x = (scale * inverse) * (g - grad_offset / m - deviation * (inverse * grad_scale / m))
    return grad_x, grad_scale, grad_offset
