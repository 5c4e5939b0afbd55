"""Convolution of images, layout (n, height, width, channels), and its two gradients."""

from kernels.arrays import definition_for, version_for
from kernels.conv import cuda, definition, fast
from kernels.conv.shapes import check_convolution


def convolve(x, weight, stride=1, padding=None):
    """Return the convolution of images with a square kernel (see ``definition.convolve``). Local.

    padding: rows and columns of zeros around the image; default kernel // 2. Raises ValueError if shapes or dtypes do
    not match.
    """
    padding = weight.shape[0] // 2 if padding is None else padding
    check_convolution(x, weight, stride, padding)
    return _version(x, weight).convolve(x, weight, stride, padding)


def convolve_backward(grad, x, weight, stride=1, padding=None, input_gradient=True):
    """Return the gradients with respect to x and weight (see ``definition.convolve_backward``). Local.

    input_gradient: False saves the work in a first layer; the gradient of x is then None.
    """
    padding = weight.shape[0] // 2 if padding is None else padding
    check_convolution(x, weight, stride, padding, grad)
    return _version(grad, x, weight).convolve_backward(grad, x, weight, stride, padding, input_gradient)


def _version(*arrays):
    return version_for(fast, cuda, None, *arrays) or definition_for("conv", definition, *arrays)
