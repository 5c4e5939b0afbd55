"""Convolution on enclosures: one sum a pixel, in any order, or by Winograd's algorithm where our CPU kernel takes it.

Winograd's F(2x2, 3x3) rounds in its transforms, whose terms cancel in exact arithmetic only. Written out, it is a sum
of products of pixels, weights and entries of A, B and G, each passing through at most ``inputs + PASSES`` roundings; so
it errs by at most gamma times the same sum of absolute values (Higham 2002, lemma 3.1, for each term).
"""

import math

import numpy as np

from kernels.conv import definition
from kernels.conv.fast import uses_winograd
from refimpl.enclosure.moves import enclosed
from refimpl.enclosure.sums import of_terms, product

PASSES = 12
"""Roundings of a term outside its sum of products: 2 in B^T d B; 6 in G g G^T and 4 in A^T m A, or 2 and 8 turned."""
ABSOLUTE_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]])
ABSOLUTE_A = np.array([[1, 0], [1, 1], [1, 1], [0, 1]], float)
ABSOLUTE_B = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]], float)
"""|G| of ``kernels.conv.kernel_tiles``, |A| and |B^T| of ``kernels.conv.transforms``."""


def convolve(x, weight, stride, padding):
    """See ``kernels.conv.definition.convolve``."""
    x, dtype = enclosed(x), weight.dtype  # images made of integers alone are NumPy's
    found = product(lambda images, kernel: definition.convolve(images, kernel, stride, padding), x, weight,
                    math.prod(weight.shape[:3]), dtype)
    if uses_winograd(x, weight, stride, padding):
        magnitude = winograd_magnitude(x.magnitude, weight.magnitude)
        found.radius += of_terms(magnitude, weight.shape[2] + PASSES, dtype)
    return found


def convolve_backward(grad, x, weight, stride, padding, input_gradient=True):
    """See ``kernels.conv.definition.convolve_backward``."""
    x = enclosed(x)
    grad_weight = _weight_gradient(grad, x, weight, stride, padding)
    if not input_gradient:
        return None, grad_weight
    if uses_winograd(x, weight, stride, padding):
        return convolve(grad, weight.moved(lambda g: g[::-1, ::-1].swapaxes(2, 3)), 1, 1), grad_weight
    grad_x = product(lambda upstream, kernel: definition.convolve_backward(upstream, x.middle, kernel, stride,
                                                                           padding)[0],
                     grad, weight, math.prod(weight.shape[:2]) * weight.shape[3], weight.dtype)
    return grad_x, grad_weight


def _weight_gradient(grad, x, weight, stride, padding):
    terms = grad.size // grad.shape[3]
    found = product(lambda upstream, images: definition.convolve_backward(upstream, images, weight.middle, stride,
                                                                          padding, False)[1],
                    grad, x, terms, weight.dtype)
    if uses_winograd(x, weight, stride, padding):
        magnitude = winograd_weight_magnitude(grad.magnitude, x.magnitude)
        found.radius += of_terms(magnitude, terms + PASSES, weight.dtype)
    return found


def tiles_of(images):
    """Return |B^T| d |B| of the 4x4 tiles, which overlap by two: (n, h, w, c) -> (n, down, along, 4, 4, c)."""
    n, height, width, channels = images.shape
    padded = np.pad(images, ((0, 0), (1, 2), (1, 2), (0, 0)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (4, 4), (1, 2))[:, ::2, ::2]
    seen = seen[:, :(height + 1) // 2, :(width + 1) // 2]
    return np.einsum("ua,nijcab,vb->nijuvc", ABSOLUTE_B, seen, ABSOLUTE_B, optimize=True)


def winograd_magnitude(images, weight):
    """Return |A^T| [sum over inputs of |G||g||G^T| * |B^T||d||B|] |A|: (n, h, w, outputs). Local."""
    transformed = np.einsum("ua,abio,vb->uvio", ABSOLUTE_G, weight, ABSOLUTE_G, optimize=True)
    products = np.einsum("nijuvc,uvco->nijuvo", tiles_of(images), transformed, optimize=True)
    tiles = np.einsum("up,nijuvo,vq->nipjqo", ABSOLUTE_A, products, ABSOLUTE_A, optimize=True)
    n, down, _, along, _, outputs = tiles.shape
    return tiles.reshape(n, 2 * down, 2 * along, outputs)[:, :images.shape[1], :images.shape[2]]


def winograd_weight_magnitude(grad, images):
    """Return |G^T| [sum over tiles of (|B^T||d||B|)^T (|A||Y'||A^T|)] |G|: (3, 3, inputs, outputs). Local."""
    n, height, width, outputs = grad.shape
    down, along = (height + 1) // 2, (width + 1) // 2
    padded = np.pad(grad, ((0, 0), (0, 2 * down - height), (0, 2 * along - width), (0, 0)))
    pixels = padded.reshape(n, down, 2, along, 2, outputs)
    upstream = np.einsum("up,nipjqo,vq->nijuvo", ABSOLUTE_A, pixels, ABSOLUTE_A, optimize=True)
    total = np.einsum("nijuvc,nijuvo->uvco", tiles_of(images), upstream, optimize=True)
    return np.einsum("ua,uvio,vb->abio", ABSOLUTE_G, total, ABSOLUTE_G, optimize=True)
