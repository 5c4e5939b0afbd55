"""Plain array code for an LSTM with projection: the oracle. Never optimised.

The cell is TensorFlow's LSTMCell(num_proj), as the authors of Parallax and of lm1b use it (Sak, Senior, Beaufays 2014
without peepholes):  gates i, j, f, o in this order;  c' = sigmoid(f + 1) * c + sigmoid(i) * tanh(j);
m = sigmoid(o) * tanh(c');  h' = m @ projection.
"""

from typing import Protocol

from kernels.arrays import array_module

FORGET_BIAS = 1.0


class Feedback(Protocol):
    """Computes the last ``columns`` of an LSTM's next input from its output, as attention does (Luong et al. 2015)."""

    columns: int

    def forward(self, t, h):
        """Return these columns of step t + 1, (streams, columns), from h_t: (streams, width).

        It is also called after the last step; the result is then not used.
        """

    def backward(self, t, d):
        """Return the gradient of h_t: (streams, width). It is called from the last step to the first.

        d: the gradient of the result of ``forward``, (streams, columns); None for the last step.
        """


def fed_rows(kernel, width, feedback):
    """Return the kernel's rows for the columns that feedback writes: (columns, 4 * hidden). Local."""
    inputs = len(kernel) - width
    return kernel[inputs - feedback.columns:inputs]


def sigmoid(x):
    """Return 1 / (1 + exp(-x)), without overflow: (any shape)."""
    xp = array_module(x)
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, 1) / (1 + small)


def cell_forward(gates, bias, c, c_next, tanh_c, m):
    """Apply the cell: replace gates by their activations, and write c_next, tanh_c and m. Columns are streams.

    gates: (4 * hidden, streams), on entry without bias; sigmoid(i), tanh(j), sigmoid(f + 1), sigmoid(o) on exit.
    bias: (4 * hidden,).  c, c_next, tanh_c, m: (hidden, streams).
    """
    xp = array_module(gates)
    gates += bias[:, None]
    i, j, f, o = xp.split(gates, 4)  # views
    i[:], j[:], f[:], o[:] = sigmoid(i), xp.tanh(j), sigmoid(f + xp.asarray(FORGET_BIAS, dtype=f.dtype)), sigmoid(o)
    c_next[:] = f * c + i * j
    tanh_c[:] = xp.tanh(c_next)
    m[:] = o * tanh_c


def cell_backward(dm, dc, activations, c, tanh_c, dgates):
    """Go back through the cell: write dgates, and replace dc (the gradient of c') by the gradient of c.

    dm, dc, c, tanh_c: (hidden, streams).  activations, dgates: (4 * hidden, streams).
    """
    xp = array_module(dm)
    i, j, f, o = xp.split(activations, 4)
    total = dc + dm * o * (1 - tanh_c * tanh_c)
    di = total * j * (i * (1 - i))
    dj = total * i * (1 - j * j)
    df = total * c * (f * (1 - f))
    do = dm * tanh_c * (o * (1 - o))
    dgates[:] = xp.concatenate([di, dj, df, do])
    dc[:] = total * f


def lstm_forward(x, kernel, bias, projection, c0, h0, lengths=None, feedback=None):
    """Run the cell over a sequence: return h, (time, streams, width), and the last c and h.

    x: (time, streams, inputs).  kernel: (inputs + width, 4 * hidden).  bias: (4 * hidden,).
    projection: (hidden, width), or None for width == hidden.  c0: (streams, hidden).  h0: (streams, width).
    lengths: (streams,) steps of each stream; later steps do not change its state; None: all have ``time``.
    feedback: its ``forward(t, h)`` gives the last columns of x in step t + 1 (see ``Feedback``); None: none.
    """
    xp = array_module(x, kernel)
    c, h, fed, outputs = c0, h0, None, []
    for t, x_t in enumerate(x):
        if fed is not None:
            x_t = xp.concatenate([x_t[:, :-fed.shape[1]], fed], axis=1)
        i, j, f, o = xp.split(xp.concatenate([x_t, h], axis=1) @ kernel + bias, 4, axis=1)
        before = c, h
        c = sigmoid(f + FORGET_BIAS) * c + sigmoid(i) * xp.tanh(j)
        m = sigmoid(o) * xp.tanh(c)
        h = m if projection is None else m @ projection
        if lengths is not None:
            ended = (lengths <= t)[:, None]
            c, h = (xp.where(ended, old, new) for old, new in zip(before, (c, h)))
        outputs.append(h)
        fed = None if feedback is None else feedback.forward(t, h)
    return xp.stack(outputs), c, h
