"""The LSTM cell on a GPU: one launch forward, one backward, a thread for each element of the state.

exp and tanh are CUDA's (libdevice: 1 and 2 ULPs at most), so activations are not NumPy's bits; everything else is.
"""

import math

from kernels.cuda import each_element, helper, scalar
from kernels.lstm.definition import FORGET_BIAS


def cell_forward(gates, bias, c, c_next, tanh_c, m):
    """See ``definition.cell_forward``; every argument is C-contiguous."""
    one, forget_bias = scalar(c, 1), scalar(c, FORGET_BIAS)
    cell_of(*c.shape, *c.shape, one, forget_bias, bias, gates, c, c_next, tanh_c, m)


def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """See ``definition.cell_backward``; every argument is C-contiguous."""
    gradient_of_cell(*c.shape, *c.shape, scalar(c, 1), dm, dc, activations, c, tanh_c, dgates)


@helper
def sigmoid(x, one):
    """See ``definition.sigmoid``."""
    small = math.exp(-abs(x))
    return (small if x < 0 else one) / (one + small)


@each_element
def cell_of(row, stream, hidden, streams, one, forget_bias, bias, gates, c, c_next, tanh_c, m):
    """Replace the four gates of one element of the state by their activations; write the state after it, and m."""
    at, size = row * streams + stream, hidden * streams
    i = sigmoid(gates[at] + bias[row], one)
    j = math.tanh(gates[size + at] + bias[hidden + row])
    f = sigmoid((gates[2 * size + at] + bias[2 * hidden + row]) + forget_bias, one)
    o = sigmoid(gates[3 * size + at] + bias[3 * hidden + row], one)
    gates[at] = i
    gates[size + at] = j
    gates[2 * size + at] = f
    gates[3 * size + at] = o
    state = f * c[at] + i * j
    c_next[at] = state
    output = math.tanh(state)
    tanh_c[at] = output
    m[at] = o * output


@each_element
def gradient_of_cell(row, stream, hidden, streams, one, dm, dc, activations, c, tanh_c, dgates):
    """Write the gradients of the four gates of one element of the state, and replace dc by that before the step."""
    at, size = row * streams + stream, hidden * streams
    i, j, f, o = activations[at], activations[size + at], activations[2 * size + at], activations[3 * size + at]
    output = tanh_c[at]
    total = dc[at] + dm[at] * o * (one - output * output)
    dgates[at] = total * j * (i * (one - i))
    dgates[size + at] = total * i * (one - j * j)
    dgates[2 * size + at] = total * c[at] * (f * (one - f))
    dgates[3 * size + at] = dm[at] * output * (o * (one - o))
    dc[at] = total * f
