"""``definition`` on a GPU, except for rounding: one launch makes the patches, then one matrix product.

Patches are (places, k k inputs), as in ``patches``. Forward, a thread writes one element of a patch. Backward, a thread
writes one element of the image: it adds up the elements of patches that were copied from it, in order of the kernel's
taps. So no two threads write the same number.
"""

import numpy as np

from kernels.arrays import array_module
from kernels.conv.shapes import output_shape
from kernels.cuda import each_element, helper


def convolve(x, weight, stride, padding):
    shape = output_shape(x, weight, stride, padding)
    return (patches_of(x, weight.shape[0], stride, padding, shape) @ weight.reshape(-1, shape[3])).reshape(shape)


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    xp, (k, _, inputs, outputs) = array_module(grad, x), weight.shape
    rows, matrix = xp.ascontiguousarray(grad).reshape(-1, outputs), weight.reshape(-1, outputs)
    seen = patches_of(x, k, stride, padding, grad.shape)
    grad_weight = (seen.T @ rows).reshape(weight.shape)
    if not input_gradient:
        return None, grad_weight
    seen = xp.matmul(rows, matrix.T, out=seen)
    grad_x = xp.empty(x.shape, x.dtype)
    n, height, width, _ = x.shape
    add_patches(n * height * width, inputs, height, width, inputs, k, stride, padding, *grad.shape[1:3],
                x.dtype.type(0), seen, grad_x)
    return grad_x, grad_weight


def patches_of(x, k, stride, padding, shape):
    """Return the patch of the image at each place, zero outside the image: (n height' width', k k inputs)."""
    xp, (n, height, width, inputs) = array_module(x), x.shape
    down, along = shape[1:3]
    require_numbered(x, max(n * down * along * k, n * height * width))
    patches = xp.empty((n * down * along, k * k * inputs), x.dtype)
    take_patches(n * down * along * k, k * inputs, height, width, inputs, k, stride, padding, down, along,
                 x.dtype.type(0), xp.ascontiguousarray(x), patches)
    return patches


def require_numbered(x, places):
    """Raise ValueError for images with more places than 32 bits can number. Local."""
    if places >= 2**32:
        raise ValueError(f"{len(x)} images of {x.shape[1]} x {x.shape[2]} at once: their places are numbered with "
                         "32 bits on a GPU; give fewer at a time (--microbatch-size)")


@helper
def divided(number, by):
    """Return quotient and remainder of two numbers below 2**32, which a GPU divides several times faster."""
    quotient = np.uint32(number) // np.uint32(by)
    return np.int64(quotient), number - np.int64(quotient) * by


@each_element
def take_patches(row, column, height, width, inputs, k, stride, padding, down, along, zero, x, patches):
    """Write an element of row ``a`` of the patch at a place: row = place * k + a, column = b * inputs + channel."""
    place, a = divided(row, k)
    above, j = divided(place, along)
    image, i = divided(above, down)
    line, left = i * stride + a - padding, (j * stride - padding) * inputs + column
    inside = 0 <= line < height and 0 <= left < width * inputs
    patches[row * k * inputs + column] = x[(image * height + line) * width * inputs + left] if inside else zero


@each_element
def add_patches(row, channel, height, width, inputs, k, stride, padding, down, along, zero, patches, x):
    """Write the sum over all patches of one image element's entries: row = (image height + line) width + column."""
    above, column = divided(row, width)
    image, line = divided(above, height)
    total = zero
    for a in range(k):
        i, skipped_down = divided(line + padding - a + k * stride, stride)  # at least 0
        i -= k
        for b in range(k):
            j, skipped_along = divided(column + padding - b + k * stride, stride)
            j -= k
            if skipped_down == 0 and skipped_along == 0 and 0 <= i < down and 0 <= j < along:
                total += patches[((((image * down + i) * along + j) * k + a) * k + b) * inputs + channel]
    x[row * inputs + channel] = total
