"""The cell of ``definition`` in Numba, with the same bits except in sigmoid and tanh. All arguments are C-contiguous.

Loops run over flat pieces of a gate. These are long even for few streams, and short enough for the first-level cache.
There are many loops, because LLVM vectorises a loop only if it can check cheaply that no arrays overlap.
"""

from kernels.compiled import compiled
from kernels.lstm.activations import sigmoid, tanh
from kernels.lstm.definition import FORGET_BIAS

PIECE = 1024  # elements: eight arrays of float32 in 32 KiB


@compiled
def cell_forward(gates, bias, c, c_next, tanh_c, m):
    hidden, streams = c.shape
    forget_bias = gates.dtype.type(FORGET_BIAS)
    for row in range(4 * hidden):
        for s in range(streams):
            gates[row, s] += bias[row]
    size = hidden * streams
    for start in range(0, size, PIECE):
        i, j, f, o = pieces(gates, start, size)
        old, new, t, out = piece(c, start), piece(c_next, start), piece(tanh_c, start), piece(m, start)
        for k in range(len(i)):
            i[k] = sigmoid(i[k])
        for k in range(len(i)):
            j[k] = tanh(j[k])
        for k in range(len(i)):
            f[k] = sigmoid(f[k] + forget_bias)
        for k in range(len(i)):
            o[k] = sigmoid(o[k])
        for k in range(len(i)):
            new[k] = f[k] * old[k] + i[k] * j[k]
        for k in range(len(i)):
            t[k] = tanh(new[k])
        for k in range(len(i)):
            out[k] = o[k] * t[k]


@compiled
def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    size = c.size
    one = dc.dtype.type(1)
    for start in range(0, size, PIECE):
        i, j, f, o = pieces(activations, start, size)
        di, dj, df, do = pieces(dgates, start, size)
        old, t, dout, total = piece(c, start), piece(tanh_c, start), piece(dm, start), piece(dc, start)
        for k in range(len(i)):
            total[k] = total[k] + dout[k] * o[k] * (one - t[k] * t[k])
        for k in range(len(i)):
            do[k] = dout[k] * t[k] * (o[k] * (one - o[k]))
        for k in range(len(i)):
            di[k] = total[k] * j[k] * (i[k] * (one - i[k]))
        for k in range(len(i)):
            dj[k] = total[k] * i[k] * (one - j[k] * j[k])
        for k in range(len(i)):
            df[k] = total[k] * old[k] * (f[k] * (one - f[k]))
        for k in range(len(i)):
            total[k] = total[k] * f[k]


@compiled
def piece(array, start):
    """Return at most PIECE elements of a contiguous array as a flat view."""
    return array.ravel()[start:start + PIECE]


@compiled
def pieces(gates, start, size):
    """Return the same piece of the gates i, j, f and o, ``size`` elements each, as flat views."""
    flat, stop = gates.ravel(), min(start + PIECE, size)
    return (flat[start:stop], flat[size + start:size + stop], flat[2 * size + start:2 * size + stop],
            flat[3 * size + start:3 * size + stop])
