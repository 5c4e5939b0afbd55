"""Plain array code for convolution: one product per tap of the kernel. The oracle, never optimised."""

from kernels.arrays import array_module
from kernels.conv.shapes import output_shape


def taps(padded, kernel, stride, height, width):
    """Yield (a, b, view): the inputs of tap (a, b) of the kernel at each of the height x width places of the result."""
    for a in range(kernel):
        for b in range(kernel):
            yield a, b, padded[:, a : a + stride * height : stride, b : b + stride * width : stride]


def pad(x, padding):
    """Return the images with ``padding`` rows and columns of zeros on every side."""
    return array_module(x).pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))


def convolve(x, weight, stride, padding):
    """Return y[n, i, j, :] = sum over a, b of padded x[n, stride i + a, stride j + b, :] @ weight[a, b].

    x: (n, height, width, inputs).  weight: (k, k, inputs, outputs).  y: (n, height', width', outputs).
    Neural networks call this convolution; it is the cross-correlation of signal processing.
    """
    xp = array_module(x, weight)
    y = xp.zeros(output_shape(x, weight, stride, padding), dtype=x.dtype)
    for a, b, seen in taps(pad(x, padding), weight.shape[0], stride, *y.shape[1:3]):
        y += seen @ weight[a, b]
    return y


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    """Return (gradient of x or None, gradient of weight) of a loss whose gradient of convolve(x, weight) is ``grad``.

    weight'[a, b] = sum over n, i, j of x padded[n, stride i + a, stride j + b, :]^T grad[n, i, j, :]
    padded x'[n, stride i + a, stride j + b, :] = sum over a, b of grad[n, i, j, :] @ weight[a, b]^T
    """
    xp = array_module(grad, x, weight)
    kernel, (height, width) = weight.shape[0], grad.shape[1:3]
    grad_weight = xp.empty_like(weight)
    for a, b, seen in taps(pad(x, padding), kernel, stride, height, width):
        grad_weight[a, b] = xp.tensordot(seen, grad, axes=((0, 1, 2), (0, 1, 2)))
    if not input_gradient:
        return None, grad_weight
    grad_padded = pad(xp.zeros_like(x), padding)
    for a, b, seen in taps(grad_padded, kernel, stride, height, width):
        seen += grad @ weight[a, b].T
    return grad_padded[:, padding : padding + x.shape[1], padding : padding + x.shape[2]], grad_weight
