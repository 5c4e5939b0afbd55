"""An LSTM over a sequence: everything that does not wait for the previous step is one product over all steps.

Inside, columns are streams: a step's gates are (4 * hidden, streams). Its products then have the weights on the left,
which BLAS packs about twice as fast for few streams, and the cell's loops are long whatever the number of streams.
"""

from dataclasses import dataclass
from typing import Any

from kernels.arrays import array_module
from kernels.lstm.cell import cell_backward, cell_forward, copy_rows, transpose


class Workspace:
    """Arrays kept from call to call, so that a step of training touches no fresh memory."""

    def __init__(self):
        self.arrays = {}

    def array(self, name: str, shape, like):
        """Return an uninitialised array of ``shape`` with the dtype and device of ``like``; the same one next time."""
        kept = self.arrays.get(name)
        if kept is None or kept.shape != tuple(shape) or kept.dtype != like.dtype or type(kept) is not type(like):
            kept = self.arrays[name] = array_module(like).empty(shape, dtype=like.dtype)
        return kept


@dataclass
class Tape:
    """What the backward pass reads: one slice a step; valid until the workspace is used again.

    x: (time, streams, inputs).  activations: (time, 4 * hidden, streams).  tanh_c, m: (time, hidden, streams).
    c: (time + 1, hidden, streams) and h: (time + 1, streams, width) begin with the state before the first step.
    """

    x: Any
    activations: Any
    tanh_c: Any
    m: Any
    c: Any
    h: Any
    workspace: Workspace

    def last_state(self):
        """Return new arrays c: (streams, hidden) and h: (streams, width), the state after the last step."""
        return self.c[-1].T.copy(), self.h[-1].copy()


def lstm_forward(x, kernel, bias, projection, c0, h0, workspace=None):
    """Run an LSTM over a sequence: return (h, tape). Local.

    gates = [x_t, h] @ kernel + bias;  c, m = cell(gates, c);  h = m @ projection

    x: (time, streams, inputs).  kernel: (inputs + width, 4 * hidden), gates i, j, f, o.  bias: (4 * hidden,).
    projection: (hidden, width), or None for none (width == hidden).  c0: (streams, hidden).  h0: (streams, width).
    h: (time, streams, width), a view of the tape, overwritten by the next call with the same workspace; the state to
    carry on is ``tape.last_state()``. Raises ValueError if shapes or dtypes do not fit.
    Source: definition.lstm_forward.
    """
    check_shapes(x, kernel, bias, projection, c0, h0)
    xp = array_module(x, kernel)
    work = workspace or Workspace()
    (time, streams, inputs), hidden, width = x.shape, c0.shape[1], h0.shape[1]
    tape = Tape(x, work.array("activations", (time, 4 * hidden, streams), x),
                work.array("tanh_c", (time, hidden, streams), x), work.array("m", (time, hidden, streams), x),
                work.array("c", (time + 1, hidden, streams), x), work.array("h", (time + 1, streams, width), x), work)
    tape.c[0], tape.h[0] = c0.T, h0
    x_gates = work.array("gates", (4 * hidden, time, streams), x)
    xp.matmul(kernel[:inputs].T, x.reshape(-1, inputs).T, out=x_gates.reshape(4 * hidden, -1))
    recurrent = work.array("recurrent", (4 * hidden, width), x)
    transpose(kernel[inputs:], recurrent)
    for t in range(time):
        gates, m = tape.activations[t], tape.m[t]
        xp.matmul(recurrent, tape.h[t].T, out=gates)
        cell_forward(gates, x_gates[:, t], bias, tape.c[t], tape.c[t + 1], tape.tanh_c[t], m)
        if projection is None:
            transpose(m, tape.h[t + 1])
        else:
            xp.matmul(m.T, projection, out=tape.h[t + 1])
    return tape.h[1:], tape


def lstm_backward(dh, tape, kernel, projection):
    """Return (dx, dkernel, dbias, dprojection, dc0, dh0) for a sequence that ``lstm_forward`` ran. Local.

    dh: (time, streams, width), with respect to every h; the last state is taken as unused (truncated).
    Every result is a new array; dprojection is None where projection is.
    """
    xp = array_module(dh, kernel)
    (time, streams, width), inputs, hidden = dh.shape, tape.x.shape[2], tape.c.shape[1]
    total, dgates, dh0, dc0 = steps_backward(dh, tape, kernel[inputs:], projection)
    flat = dgates.reshape(4 * hidden, -1)
    dkernel = xp.empty_like(kernel)
    xp.matmul(tape.x.reshape(-1, inputs).T, flat.T, out=dkernel[:inputs])
    xp.matmul(tape.h[:-1].reshape(-1, width).T, flat.T, out=dkernel[inputs:])
    dprojection = None
    if projection is not None:
        m = tape.workspace.array("m_by_row", (hidden, time, streams), dh)
        for t in range(time):
            copy_rows(tape.m[t], m[:, t])
        dprojection = m.reshape(hidden, -1) @ total.reshape(-1, width)
    dx = (flat.T @ kernel[:inputs].T).reshape(tape.x.shape)
    return dx, dkernel, flat.sum(axis=1), dprojection, dc0, dh0


def steps_backward(dh, tape, recurrent, projection):
    """Walk back in time: return the whole gradient with respect to each h, to the gates by row, and to h0 and c0.

    recurrent: (width, 4 * hidden), the kernel's part for h.  Result: (time, streams, width), (4 * hidden, time, streams),
    (streams, width), (streams, hidden).
    """
    xp, work = array_module(dh), tape.workspace
    (time, streams, width), hidden = dh.shape, tape.c.shape[1]
    total = work.array("dh", (time, streams, width), dh)
    dgates = work.array("gates", (4 * hidden, time, streams), dh)  # the input's part is read no more
    step, dm = work.array("step", (4 * hidden, streams), dh), work.array("dm", (hidden, streams), dh)
    before, dc = xp.zeros((width, streams), dh.dtype), xp.zeros((hidden, streams), dh.dtype)
    for t in range(time - 1, -1, -1):
        xp.add(dh[t], before.T, out=total[t])
        if projection is None:
            transpose(total[t], dm)
        else:
            xp.matmul(projection, total[t].T, out=dm)
        cell_backward(dm, dc, tape.activations[t], tape.c[t], tape.tanh_c[t], step)
        copy_rows(step, dgates[:, t])
        xp.matmul(recurrent, step, out=before)
    return total, dgates, before.T, dc.T


def check_shapes(x, kernel, bias, projection, c0, h0):
    """Raise ValueError naming the array whose shape does not follow from x, c0 and h0."""
    (_, streams, inputs), hidden, width = x.shape, c0.shape[-1], h0.shape[-1]
    expected = {"kernel": (kernel, (inputs + width, 4 * hidden)), "bias": (bias, (4 * hidden,)),
                "c0": (c0, (streams, hidden)), "h0": (h0, (streams, width))}
    if projection is not None:
        expected["projection"] = (projection, (hidden, width))
    elif hidden != width:
        raise ValueError(f"h0 is {width} wide and c0 {hidden}: without a projection they must be equal")
    for name, (array, shape) in expected.items():
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} for x {x.shape}, c0 {c0.shape}, "
                             f"h0 {h0.shape}")
        if array.dtype != x.dtype:
            raise ValueError(f"{name} is {array.dtype} and x is {x.dtype}: convert one of them")
