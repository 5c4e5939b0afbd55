"""Plain array code for max pooling over 2x2 windows, stride 2: the oracle, never optimised."""

from kernels.arrays import array_module


def corners(x):
    """Return four views (n, height // 2, width // 2, c): the places of every window. An odd last line is in none."""
    height, width = x.shape[1] // 2 * 2, x.shape[2] // 2 * 2
    return [x[:, a:height:2, b:width:2] for a in (0, 1) for b in (0, 1)]


def max_pool(x):
    """Return y[n, i, j, c] = max of x[n, 2i + a, 2j + b, c] over a, b in {0, 1}; NaN if one of them is.

    x: (n, height, width, c).  y: (n, height // 2, width // 2, c).
    """
    xp = array_module(x)
    a, b, c, d = corners(x)
    return xp.maximum(xp.maximum(a, b), xp.maximum(c, d))


def max_pool_backward(grad, x):
    """Return the gradient of x: a window's gradient goes to the first of its largest elements in row-major order.

    grad: of y, (n, height // 2, width // 2, c).
    """
    xp = array_module(grad, x)
    a, b, c, d = corners(x)
    zero, grad_x = xp.zeros((), grad.dtype), xp.zeros_like(x)
    lower = xp.maximum(c, d) > xp.maximum(a, b)
    above, below = xp.where(lower, zero, grad), xp.where(lower, grad, zero)
    parts = (xp.where(b > a, zero, above), xp.where(b > a, above, zero),
             xp.where(d > c, zero, below), xp.where(d > c, below, zero))
    for place, part in zip(corners(grad_x), parts):
        place[...] = part
    return grad_x
