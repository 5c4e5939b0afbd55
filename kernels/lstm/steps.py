"""The steps of ``sequence`` for few streams: one compiled call each way, with the same bits.

``depths_for`` says for which sizes, on this machine.
"""

from functools import lru_cache

import numpy as np

from kernels.compiled import compiled
from kernels.lstm.fast import cell_backward, cell_forward
from kernels.lstm.product import depth_for, panels, product
from kernels.lstm.transposes import transpose

FEWEST = 4
"""Steps from which it pays to copy the weights."""


@lru_cache(maxsize=None)
def depths_for(dtype: str, streams: int, inputs: int, hidden: int, width: int, projected: bool):
    """Return what ``forward`` and ``backward`` take as depths: two pairs; None if BLAS has to compute. Local."""
    if dtype != "float32":
        return None
    pairs = ((depth_for(_from_rows, inputs + width, 4 * hidden, streams),
              depth_for(_to_rows, hidden, width, streams) if projected else 0),
             (depth_for(_from_rows, width, hidden, streams) if projected else 0,
              depth_for(_from_columns, 4 * hidden, width, streams)))
    return None if None in pairs[0] + pairs[1] else pairs


def _from_rows(weights, x):
    """How ``sequence`` lets BLAS compute weights.T @ x, if each column of x lies in a row."""
    return np.matmul(_turned(weights), _turned(x).T)


def _to_rows(weights, x):
    """As ``_from_rows``, if each column of the result lies in a row."""
    return _turned(np.matmul(x.T, weights))


def _from_columns(weights, x):
    return np.matmul(_turned(weights), x)


def _turned(matrix):
    out = np.empty(matrix.shape[::-1], matrix.dtype)
    transpose(matrix, out)
    return out


@compiled
def forward(kernel, bias, projection, depths, tape):
    """Fill the arrays of the tape: xh, activations, tanh_c, m, c. x and the first c and h are there already."""
    (xh, activations, tanh_c, m, c), width = tape, len(bias) // 4 if projection is None else projection.shape[1]
    step, h = np.empty(xh.shape[:0:-1], bias.dtype), np.empty((width, xh.shape[1]), bias.dtype)
    gates = panels(kernel, False)
    if projection is not None:
        down = panels(projection, False)
    for t in range(len(m)):
        transpose(xh[t], step)
        product(gates, step, activations[t], depths[0])
        cell_forward(activations[t], bias, c[t], c[t + 1], tanh_c[t], m[t])
        after = xh[t + 1, :, xh.shape[2] - width:]
        if projection is None:
            transpose(m[t], after)
        else:
            product(down, m[t], h, depths[1])
            transpose(h, after)


@compiled
def backward(dh, recurrent, projection, depths, tape, total, dgates, dc, before, initial):
    """Fill total and dgates; dc and before become the gradients of c0 and h0. See ``sequence.steps_backward``.

    recurrent: the last rows of the kernel, (width, 4 * hidden).
    """
    (_, activations, tanh_c, _, c), (time, streams, width) = tape, dh.shape
    step, d = np.empty_like(activations[0]), np.empty_like(before)
    dm, back = d if projection is None else np.empty_like(dc), panels(recurrent, True)
    if projection is not None:
        up = panels(projection, True)
    for t in range(time - 1, -1, -1):
        transpose(dh[t], d)
        for row in range(width):  # in loops, which are compiled in a fraction of the time
            for stream in range(streams):
                d[row, stream] += before[row, stream]
        if projection is not None:
            transpose(d, total[t])
            product(up, d, dm, depths[0])
        cell_backward(dm, dc, activations[t], c[t], tanh_c[t], step)
        for row in range(len(step)):
            for stream in range(streams):
                dgates[row, t, stream] = step[row, stream]
        if t or initial:
            product(back, step, before, depths[1])
