"""Max pooling of images over 2x2 windows, stride 2, layout (n, height, width, channels), and its gradient."""

from kernels.arrays import version_for
from kernels.pool import cuda, definition, fast


def max_pool(x):
    """Return the maximum of every window (see ``definition.max_pool``). Local. Raises ValueError for smaller images."""
    _check(x)
    return version_for(fast, cuda, definition, x).max_pool(x)


def max_pool_backward(grad, x):
    """Return the gradient of x (see ``definition.max_pool_backward``). Local. Raises ValueError for other shapes."""
    _check(x)
    if grad.shape != (expected := (len(x), x.shape[1] // 2, x.shape[2] // 2, x.shape[3])):
        raise ValueError(f"gradient {grad.shape} of pooled images {x.shape}: give it the shape {expected}")
    return version_for(fast, cuda, definition, grad, x).max_pool_backward(grad, x)


def _check(x):
    if x.ndim != 4 or min(x.shape[1:3]) < 2:
        raise ValueError(f"images {x.shape} have no window of 2 x 2: give (n, height, width, channels), height and "
                         "width of 2 or more")
