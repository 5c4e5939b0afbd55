"""The LSTM cell for NumPy arrays, compiled. One row stays in the first-level cache from loop to loop.

The loops are many and short because LLVM vectorises a loop only if it can check cheaply that no array overlaps another.
"""

import numpy as np
from numba import njit

from kernels.lstm.activations import sigmoid, tanh
from kernels.lstm.definition import FORGET_BIAS


@njit(cache=True, nogil=True, error_model="numpy")
def cell_forward(gates, c, activations, c_next, tanh_c, m):
    """See ``definition.cell_forward``; every argument is C-contiguous along its last axis."""
    streams, hidden = c.shape
    forget_bias = gates.dtype.type(FORGET_BIAS)
    for s in range(streams):
        z = gates[s]
        a = activations[s]
        for k in range(hidden):
            a[k] = sigmoid(z[k])
        for k in range(hidden, 2 * hidden):
            a[k] = tanh(z[k])
        for k in range(2 * hidden, 3 * hidden):
            a[k] = sigmoid(z[k] + forget_bias)
        for k in range(3 * hidden, 4 * hidden):
            a[k] = sigmoid(z[k])
        i, j, f, o = a[:hidden], a[hidden:2 * hidden], a[2 * hidden:3 * hidden], a[3 * hidden:]
        old, new, t, out = c[s], c_next[s], tanh_c[s], m[s]
        for k in range(hidden):
            new[k] = f[k] * old[k] + i[k] * j[k]
        for k in range(hidden):
            t[k] = tanh(new[k])
        for k in range(hidden):
            out[k] = o[k] * t[k]


@njit(cache=True, nogil=True, error_model="numpy")
def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """See ``definition.cell_backward``, bit for bit."""
    streams, hidden = c.shape
    one = dm.dtype.type(1)
    for s in range(streams):
        a, dz = activations[s], dgates[s]
        i, j, f, o = a[:hidden], a[hidden:2 * hidden], a[2 * hidden:3 * hidden], a[3 * hidden:]
        di, dj, df, do = dz[:hidden], dz[hidden:2 * hidden], dz[2 * hidden:3 * hidden], dz[3 * hidden:]
        old, t, dout, total = c[s], tanh_c[s], dm[s], dc[s]
        for k in range(hidden):
            total[k] = total[k] + dout[k] * o[k] * (one - t[k] * t[k])
        for k in range(hidden):
            do[k] = dout[k] * t[k] * (o[k] * (one - o[k]))
        for k in range(hidden):
            di[k] = total[k] * j[k] * (i[k] * (one - i[k]))
        for k in range(hidden):
            dj[k] = total[k] * i[k] * (one - j[k] * j[k])
        for k in range(hidden):
            df[k] = total[k] * old[k] * (f[k] * (one - f[k]))
        for k in range(hidden):
            total[k] = total[k] * f[k]
