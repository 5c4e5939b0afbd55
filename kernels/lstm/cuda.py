"""The cell of ``definition`` on a GPU: one launch forward, one backward, a thread for each element of the state.

Rows are streams here: gates are (streams, 4 * hidden), so that products need no transpose.

exp and tanh are CUDA's (libdevice: 1 and 2 ULPs at most), so activations differ from NumPy's in the last bits. All
other operations give the same bits.
"""

import math

from kernels.arrays import array_module
from kernels.cuda import each_element, helper, scalar
from kernels.lstm.definition import FORGET_BIAS

PARTS = 32  # sums of rows, computed in parallel


def cell_forward(gates, bias, c, c_next, tanh_c, m):
    """See ``definition.cell_forward``, with rows for its columns; every argument is C-contiguous.

    gates: (streams, 4 * hidden).  c, c_next, tanh_c, m: (streams, hidden).
    """
    one, forget_bias = scalar(c, 1), scalar(c, FORGET_BIAS)
    cell_of(*c.shape, c.shape[1], one, forget_bias, bias, gates, c, c_next, tanh_c, m)


def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """See ``definition.cell_backward``, with rows for its columns; every argument is C-contiguous."""
    gradient_of_cell(*c.shape, c.shape[1], scalar(c, 1), dm, dc, activations, c, tanh_c, dgates)


def sum_of_rows(rows):
    """Return the sum of the rows of a matrix, PARTS of them at once, in a fixed order: (n, d) -> (d,)."""
    xp, (count, width) = array_module(rows), rows.shape
    partial, total = xp.empty((PARTS, width), rows.dtype), xp.empty(width, rows.dtype)
    add_every(PARTS, width, PARTS, count, width, scalar(rows, 0), rows, partial)
    add_every(1, width, 1, PARTS, width, scalar(rows, 0), partial, total)
    return total


@helper
def sigmoid(x, one):
    small = math.exp(-abs(x))
    return (small if x < 0 else one) / (one + small)


@each_element
def cell_of(stream, unit, hidden, one, forget_bias, bias, gates, c, c_next, tanh_c, m):
    """Replace the four gates of one element of the state by their activations; write the next state, and m."""
    at, first = stream * hidden + unit, 4 * stream * hidden + unit
    i = sigmoid(gates[first] + bias[unit], one)
    j = math.tanh(gates[first + hidden] + bias[hidden + unit])
    f = sigmoid((gates[first + 2 * hidden] + bias[2 * hidden + unit]) + forget_bias, one)
    o = sigmoid(gates[first + 3 * hidden] + bias[3 * hidden + unit], one)
    gates[first] = i
    gates[first + hidden] = j
    gates[first + 2 * hidden] = f
    gates[first + 3 * hidden] = o
    state = f * c[at] + i * j
    c_next[at] = state
    output = math.tanh(state)
    tanh_c[at] = output
    m[at] = o * output


@each_element
def gradient_of_cell(stream, unit, hidden, one, dm, dc, activations, c, tanh_c, dgates):
    """Write the gradients of the four gates of one element of the state; replace dc by the one before the step."""
    at, first = stream * hidden + unit, 4 * stream * hidden + unit
    i, j = activations[first], activations[first + hidden]
    f, o = activations[first + 2 * hidden], activations[first + 3 * hidden]
    output, before, incoming = tanh_c[at], c[at], dm[at]
    total = dc[at] + incoming * o * (one - output * output)
    dgates[first] = total * j * (i * (one - i))
    dgates[first + hidden] = total * i * (one - j * j)
    dgates[first + 2 * hidden] = total * before * (f * (one - f))
    dgates[first + 3 * hidden] = incoming * output * (o * (one - o))
    dc[at] = total * f


@each_element
def add_every(part, column, parts, count, width, zero, rows, total):
    """Write the sum of a column over rows part, part + parts, ...; it loads four at once and adds them in turn."""
    value, row = zero, part
    while row + 3 * parts < count:
        at, step = row * width + column, parts * width
        one, two, three, four = rows[at], rows[at + step], rows[at + 2 * step], rows[at + 3 * step]
        value = (((value + one) + two) + three) + four
        row += 4 * parts
    while row < count:
        value += rows[row * width + column]
        row += parts
    total[part * width + column] = value
