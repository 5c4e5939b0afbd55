"""``definition`` on a GPU, bit for bit: a thread for each window and channel."""

from kernels.arrays import array_module
from kernels.conv.cuda import divided, require_numbered
from kernels.cuda import each_element, helper, scalar


def max_pool(x):
    xp, (n, height, width, channels) = array_module(x), x.shape
    require_numbered(x, n * height * width)
    y = xp.empty((n, height // 2, width // 2, channels), x.dtype)
    largest(y.size // channels, channels, height, width, channels, xp.ascontiguousarray(x), y)
    return y


def max_pool_backward(grad, x):
    xp, (_, height, width, channels) = array_module(grad, x), x.shape
    grad_x = xp.zeros(x.shape, x.dtype) if height % 2 or width % 2 else xp.empty(x.shape, x.dtype)
    to_the_largest(grad.size // channels, channels, height, width, channels, scalar(x, 0), xp.ascontiguousarray(grad),
                   xp.ascontiguousarray(x), grad_x)
    return grad_x


@helper
def larger(a, b):
    """Return the larger number, the first of equal ones; NaN if one is."""
    return b if b > a or b != b else a


@helper
def first_of(window, channel, height, width, channels):
    """Return the index of a window's first element: window = (image * (height // 2) + i) * (width // 2) + j."""
    above, j = divided(window, width >> 1)
    image, i = divided(above, height >> 1)
    return ((image * height + 2 * i) * width + 2 * j) * channels + channel


@each_element
def largest(window, channel, height, width, channels, x, y):
    """Write the maximum of a window."""
    at = first_of(window, channel, height, width, channels)
    under = at + width * channels
    y[window * channels + channel] = larger(larger(x[at], x[at + channels]), larger(x[under], x[under + channels]))


@each_element
def to_the_largest(window, channel, height, width, channels, zero, grad, x, grad_x):
    """Write the gradients of a window's elements: the largest gets the window's gradient, the others 0."""
    at = first_of(window, channel, height, width, channels)
    under = at + width * channels
    a, b, c, d = x[at], x[at + channels], x[under], x[under + channels]
    upstream = grad[window * channels + channel]
    lower = larger(c, d) > larger(a, b)
    above = zero if lower else upstream
    below = upstream if lower else zero
    grad_x[at] = zero if b > a else above
    grad_x[at + channels] = above if b > a else zero
    grad_x[under] = zero if d > c else below
    grad_x[under + channels] = below if d > c else zero
