"""Fast convolution on NumPy arrays: Winograd's where it applies and pays, matrix products of patches elsewhere."""

import numpy as np

from kernels.conv import patches, winograd

WINOGRAD_CHANNELS = 16
"""Fewest input and output channels for which Winograd's matrix products are worth their transforms (measured)."""


def uses_winograd(weight, stride, padding):
    """Return True if Winograd's algorithm F(2x2, 3x3) takes this convolution: a function of shapes alone. Local."""
    return weight.shape[:2] == (3, 3) and stride == 1 and padding == 1 and min(weight.shape[2:]) >= WINOGRAD_CHANNELS


def convolve(x, weight, stride, padding):
    """See ``definition.convolve``."""
    x = np.ascontiguousarray(x)
    if uses_winograd(weight, stride, padding):
        return winograd.convolve(x, weight)
    return patches.convolve(x, weight, stride, padding)


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    """See ``definition.convolve_backward``."""
    grad, x = np.ascontiguousarray(grad), np.ascontiguousarray(x)
    if not uses_winograd(weight, stride, padding):
        return patches.convolve_backward(grad, x, weight, stride, padding, input_gradient)
    # The gradient of x is itself such a convolution: of grad, with the kernel turned by 180 degrees.
    turned = weight[::-1, ::-1].swapaxes(2, 3)
    return winograd.convolve(grad, turned) if input_gradient else None, winograd.weight_gradient(grad, x)
