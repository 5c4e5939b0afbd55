"""ReLU of a sum in one pass over memory, in Numba: images and their bias, or a block's result and its shortcut."""

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


@compiled
def _add_relu(rows, added):
    zero = rows.dtype.type(0)
    for i in range(len(rows)):
        row, more = rows[i], added[i % len(added)]
        for k in range(len(row)):
            value = row[k] + more[k]
            row[k] = value if value > zero or value != value else zero
