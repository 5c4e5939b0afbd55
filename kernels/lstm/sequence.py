"""An LSTM over a sequence: everything that does not wait for the previous step is one product over all steps."""

from dataclasses import dataclass
from typing import Any

from kernels.arrays import array_module
from kernels.lstm.cell import cell_backward, cell_forward


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

    x: (time, streams, inputs).  activations: (time, streams, 4 * hidden).  tanh_c, m: (time, streams, hidden).
    c: (time + 1, streams, hidden) and h: (time + 1, streams, width) begin with the state before the first step.
    """

    x: Any
    activations: Any
    tanh_c: Any
    m: Any
    c: Any
    h: Any
    workspace: Workspace


def lstm_forward(x, kernel, bias, projection, c0, h0, workspace=None):
    """Run an LSTM over a sequence: return (h, tape). Local.

    gates = [x_t, h] @ kernel + bias;  c, m = cell(gates, c);  h = m @ projection

    x: (time, streams, inputs).  kernel: (inputs + width, 4 * hidden), gates i, j, f, o.  bias: (4 * hidden,).
    projection: (hidden, width), or None for none (width == hidden).  c0: (streams, hidden).  h0: (streams, width).
    h: (time, streams, width), a view of the tape; the last state is ``tape.c[-1]``, ``tape.h[-1]``. All of it is
    overwritten by the next call with the same workspace. Raises ValueError if the shapes do not fit.
    Source: definition.lstm_forward.
    """
    check_shapes(x, kernel, bias, projection, c0, h0)
    xp = array_module(x, kernel)
    workspace = workspace or Workspace()
    (time, streams, inputs), hidden, width = x.shape, c0.shape[1], h0.shape[1]
    gates = workspace.array("gates", (time, streams, 4 * hidden), x)
    recurrent = workspace.array("recurrent", (streams, 4 * hidden), x)
    tape = Tape(x, gates, workspace.array("tanh_c", (time, streams, hidden), x),
                workspace.array("m", (time, streams, hidden), x),
                workspace.array("c", (time + 1, streams, hidden), x),
                workspace.array("h", (time + 1, streams, width), x), workspace)
    tape.c[0], tape.h[0] = c0, h0
    xp.matmul(x.reshape(-1, inputs), kernel[:inputs], out=gates.reshape(-1, 4 * hidden))
    gates += bias
    for t in range(time):
        gates[t] += xp.matmul(tape.h[t], kernel[inputs:], out=recurrent)
        m = tape.h[t + 1] if projection is None else tape.m[t]
        cell_forward(gates[t], tape.c[t], gates[t], tape.c[t + 1], tape.tanh_c[t], m)
        if projection is not None:
            xp.matmul(m, projection, out=tape.h[t + 1])
    return tape.h[1:], tape


def lstm_backward(dh, tape, kernel, projection):
    """Return (dx, dkernel, dbias, dprojection, dc0, dh0) for a sequence that ``lstm_forward`` ran. Local.

    dh: (time, streams, width), with respect to every h; the last state is taken as unused (truncated).
    Every result is a new array; dprojection is None where projection is.
    """
    xp = array_module(dh, kernel)
    work = tape.workspace
    time, streams, width = dh.shape
    inputs, hidden = tape.x.shape[2], tape.c.shape[2]
    transposed = work.array("transposed", (4 * hidden, width), dh)  # BLAS reads it faster than a transposed view
    transposed[:] = kernel[inputs:].T
    dgates = work.array("dgates", (time, streams, 4 * hidden), dh)
    total = work.array("dh", (time, streams, width), dh)
    dm = work.array("dm", (streams, hidden), dh)
    dh0, dc = xp.zeros((streams, width), dh.dtype), xp.zeros((streams, hidden), dh.dtype)
    for t in range(time - 1, -1, -1):
        xp.add(dh[t], dh0, out=total[t])
        dm_t = total[t] if projection is None else xp.matmul(total[t], projection.T, out=dm)
        cell_backward(dm_t, dc, tape.activations[t], tape.c[t], tape.tanh_c[t], dgates[t])
        xp.matmul(dgates[t], transposed, out=dh0)
    flat = dgates.reshape(-1, 4 * hidden)
    dkernel = xp.empty_like(kernel)
    xp.matmul(tape.x.reshape(-1, inputs).T, flat, out=dkernel[:inputs])
    xp.matmul(tape.h[:-1].reshape(-1, width).T, flat, out=dkernel[inputs:])
    dprojection = None
    if projection is not None:
        dprojection = tape.m.reshape(-1, hidden).T @ total.reshape(-1, width)
    dx = (flat @ kernel[:inputs].T).reshape(tape.x.shape)
    return dx, dkernel, flat.sum(axis=0), dprojection, dc, dh0


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
