"""ReLU in one pass over memory, in Numba: of the sum of images and a bias or a shortcut; and its gradient."""

import numpy as np

from kernels.arrays import array_module, is_float_numpy
from kernels.compiled import compiled


def add_relu(x, added):
    """Return max(x + added, 0), dtype of x; x may be overwritten. Local.

    x: (n, height, width, c).  added: the same shape, or (c,), a number for each channel.
    """
    if not is_float_numpy(x, added) or x.dtype != added.dtype:
        x += added
        return array_module(x).maximum(x, 0, out=x)
    x, line = np.ascontiguousarray(x), x.shape[2] * x.shape[3]  # whole lines: loops over few channels are slow
    added = np.tile(added, x.shape[2]) if added.ndim == 1 else np.ascontiguousarray(added)
    _add_relu(x.reshape(-1, line), added.reshape(-1, line))
    return x


def relu_backward(grad, y):
    """Return grad * (y > 0), and its sum for each channel, dtype of grad, added up in float64. Local.

    grad, y: (n, height, width, c).
    """
    c = grad.shape[3]
    if is_float_numpy(grad, y) and grad.dtype == y.dtype and c > 1:  # of one channel NumPy adds pairs
        found, total = np.empty(grad.shape, grad.dtype), np.zeros(c)
        _relu_backward(*(np.ascontiguousarray(a).reshape(-1, c) for a in (grad, y)), found.reshape(-1, c), total)
    else:
        found = grad * (y > 0)
        total = found.sum(axis=(0, 1, 2), dtype="float64")
    return found, total.astype(grad.dtype)


@compiled
def _add_relu(rows, added):
    zero = rows.dtype.type(0)
    for i in range(len(rows)):
        row, more = rows[i], added[i % len(added)]
        for k in range(len(row)):
            value = row[k] + more[k]
            row[k] = value if value > zero or value != value else zero


@compiled
def _relu_backward(grad, y, found, total):
    one, zero = grad.dtype.type(1), grad.dtype.type(0)
    for i in range(len(grad)):
        upstream, shown, result = grad[i], y[i], found[i]
        for k in range(len(total)):
            result[k] = upstream[k] * (one if shown[k] > zero else zero)
        for k in range(len(total)):
            total[k] += np.float64(result[k])
