"""``definition`` on NumPy arrays, except for rounding: Winograd's convolution if it is faster, else patch products."""

import numpy as np

from kernels.conv import patches, winograd

LEAST_CHANNELS, LEAST_SIDE = 2, 4
"""With fewer inputs or outputs, or a smaller height or width, patch products are faster than Winograd's (measured)."""


def uses_winograd(x, weight, stride, padding):
    """Return True if Winograd's algorithm F(2x2, 3x3) is used; this depends only on the shapes. Local."""
    applies = weight.shape[:2] == (3, 3) and stride == 1 and padding == 1
    return applies and min(weight.shape[2:]) >= LEAST_CHANNELS and min(x.shape[1:3]) >= LEAST_SIDE


def convolve(x, weight, stride, padding):
    x = np.ascontiguousarray(x)
    if uses_winograd(x, weight, stride, padding):
        return winograd.convolve(x, weight)
    return patches.convolve(x, weight, stride, padding)


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    grad, x = np.ascontiguousarray(grad), np.ascontiguousarray(x)
    if not uses_winograd(x, weight, stride, padding):
        return patches.convolve_backward(grad, x, weight, stride, padding, input_gradient)
    grad_x = winograd.convolve(grad, weight, turned=True) if input_gradient else None
    return grad_x, winograd.weight_gradient(grad, x)
