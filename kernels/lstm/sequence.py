"""A fast ``definition.lstm_forward`` and its gradients. Parts that do not depend on other steps are one product.

Inside, columns are streams: a step's gates are (4 * hidden, streams). So the weights are on the left in products, which
BLAS packs about twice as fast for few streams, and the cell's loops are long for any number of streams. Neither helps
on a GPU: see ``cuda_sequence``. Other arrays have a version of their own (``kernels.arrays.definition_for``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernels.arrays import array_module, definition_for, is_float_cuda
from kernels.lstm import cuda_sequence, fast, steps
from kernels.lstm.definition import Feedback, fed_rows
from kernels.lstm.transposes import transpose


class Workspace:
    """Arrays that are reused from call to call, so that a step of training needs no new memory."""

    def __init__(self):
        self.arrays = {}

    def array(self, name: str, shape, like):
        """Return an uninitialised array with the dtype and device of ``like``; the next call returns the same array."""
        kept = self.arrays.get(name)
        if kept is None or kept.shape != tuple(shape) or kept.dtype != like.dtype or type(kept) is not type(like):
            kept = self.arrays[name] = array_module(like).empty(shape, dtype=like.dtype)
        return kept


@dataclass
class Tape:
    """The arrays for the backward pass, with a slice for each step. They are valid until the workspace is used again.

    xh: (time + 1, streams, inputs + width), the input of each step and h before it; the last slice has only the last h.
    activations: (time, 4 * hidden, streams).  tanh_c, m: (time, hidden, streams).
    c: (time + 1, hidden, streams), beginning with the state before the first step.
    ended: for each step, the streams that have ended before it: (k,) int64, or None.
    """

    xh: Any
    activations: Any
    tanh_c: Any
    m: Any
    c: Any
    width: int
    workspace: Workspace
    ended: list
    feedback: Feedback | None

    def last_state(self):
        """Return new arrays c: (streams, hidden) and h: (streams, width), the state after the last step."""
        inputs = self.xh.shape[2] - self.width
        return self.c[-1].T.copy(), self.xh[-1, :, inputs:].copy()

    def arrays(self):
        """Return the arrays as ``steps`` takes them."""
        return self.xh, self.activations, self.tanh_c, self.m, self.c


def lstm_forward(x, kernel, bias, projection, c0, h0, workspace=None, lengths=None, feedback=None):
    """Run an LSTM over a sequence: return (h, tape). Local.

    gates = [x_t, h] @ kernel + bias;  c, m = cell(gates, c);  h = m @ projection

    x: (time, streams, inputs).  kernel: (inputs + width, 4 * hidden), gates i, j, f, o.  bias: (4 * hidden,).
    projection: (hidden, width), or None (width == hidden).  c0: (streams, hidden).  h0: (streams, width).
    lengths: (streams,) ints on the host, steps of each stream; later steps do not change its state; None: ``time``.
    feedback: writes the last columns of x from step 1 on; None: x is complete.
    h: (time, streams, width), a view of the tape, which the next call with the same workspace overwrites. The state
    for the next window is ``tape.last_state()``. Raises ValueError if shapes or dtypes do not match.
    Source: definition.lstm_forward.
    """
    check_shapes(x, kernel, bias, projection, c0, h0, lengths)
    work, ended = workspace or Workspace(), ended_streams(lengths, len(x))
    if other := _version(x, kernel):
        return other.lstm_forward(x, kernel, bias, projection, c0, h0, work, ended, feedback)
    (time, streams, inputs), hidden, width = x.shape, c0.shape[1], h0.shape[1]
    tape = Tape(work.array("xh", (time + 1, streams, inputs + width), x),
                work.array("activations", (time, 4 * hidden, streams), x),
                work.array("tanh_c", (time, hidden, streams), x), work.array("m", (time, hidden, streams), x),
                work.array("c", (time + 1, hidden, streams), x), width, work, ended, feedback)
    tape.xh[:-1, :, :inputs], tape.c[0], tape.xh[0, :, inputs:] = x, c0.T, h0
    if depths := compiled_depths(tape, projection):
        steps.forward(kernel, bias, projection, depths[0], tape.arrays())
    else:
        blas_forward(tape, kernel, bias, projection)
    return tape.xh[1:, :, inputs:], tape


def lstm_backward(dh, tape, kernel, projection, initial=False, last=None):
    """Return (dx, dkernel, dbias, dprojection, dc0, dh0) for a sequence that ``lstm_forward`` ran. Local.

    dh: (time, streams, width), with respect to every h.
    initial: whether to compute dc0 and dh0; else they are None, which saves a product.
    last: (dc, dh), the gradient of ``tape.last_state()``; None: the state is not used (truncated).
    Every result is a new array; dprojection is None if projection is. In the columns of feedback, dx is the gradient
    that feedback has read.
    """
    if other := _version(dh, kernel):
        return other.lstm_backward(dh, tape, kernel, projection, initial, last)
    work = tape.workspace
    (time, streams, width), hidden = dh.shape, tape.c.shape[1]
    inputs = len(kernel) - width
    total, dgates, dc0, dh0 = steps_backward(dh, tape, kernel, projection, initial, last)
    dkernel, dx = np.empty_like(kernel), np.empty((time * streams, inputs), dh.dtype)
    transposed_product(dgates, tape.xh[:-1].reshape(-1, inputs + width),
                       work.array("dkernel", kernel.shape[::-1], dh), dkernel)
    transposed_product(kernel[:inputs], dgates, work.array("dx", (inputs, time * streams), dh), dx)
    dprojection = None
    if projection is not None:
        m = work.array("m_by_row", (hidden, time, streams), dh)
        m[:] = tape.m.transpose(1, 0, 2)
        dprojection = np.matmul(m.reshape(hidden, -1), total.reshape(-1, width))
    dbias = dgates @ np.ones(time * streams, dh.dtype)  # a product is faster than a sum along the rows
    return dx.reshape(time, streams, inputs), dkernel, dbias, dprojection, dc0, dh0


def _version(*arrays):
    """Return the version for arrays of another module than NumPy's, or None."""
    return cuda_sequence if is_float_cuda(*arrays) else definition_for("lstm", None, *arrays)


def compiled_depths(tape, projection):
    """Return what ``steps`` takes as depths; None if it cannot run these steps, or would be slower."""
    (time, hidden, streams), inputs = tape.m.shape, tape.xh.shape[2] - tape.width
    if time < steps.FEWEST or tape.feedback is not None or any(gone is not None for gone in tape.ended):
        return None
    return steps.depths_for(tape.c.dtype.name, streams, inputs, hidden, tape.width, projection is not None)


def blas_forward(tape, kernel, bias, projection):
    """Fill the arrays of the tape, step by step. Like ``steps.forward``, but BLAS computes the products."""
    feedback, inputs = tape.feedback, tape.xh.shape[2] - tape.width
    h, weights = tape.xh[:, :, inputs:], tape.workspace.array("weights", kernel.shape[::-1], kernel)
    transpose(kernel, weights)  # BLAS reads a copy twice as fast as a transposed view
    for t in range(len(tape.m)):
        gates, m = tape.activations[t], tape.m[t]
        np.matmul(weights, tape.xh[t].T, out=gates)
        fast.cell_forward(gates, bias, tape.c[t], tape.c[t + 1], tape.tanh_c[t], m)
        if projection is None:
            transpose(m, h[t + 1])
        else:
            np.matmul(m.T, projection, out=h[t + 1])
        if (gone := tape.ended[t]) is not None:
            tape.c[t + 1][:, gone], h[t + 1, gone] = tape.c[t][:, gone], h[t, gone]
        if feedback is not None:
            fed = feedback.forward(t, h[t + 1])
            if t + 1 < len(tape.m):
                tape.xh[t + 1, :, inputs - feedback.columns:inputs] = fed


def steps_backward(dh, tape, kernel, projection, initial, last):
    """Go back in time: return the gradients of each h, of the gates by row, and of c0 and h0.

    Shapes of the results: (time, streams, width), filled only if there is a projection; (4 * hidden, time * streams);
    (streams, hidden) and (streams, width), or None and None.
    """
    work, (time, streams, width), hidden = tape.workspace, dh.shape, tape.c.shape[1]
    total = work.array("dh", (time, streams, width), dh)
    dgates = work.array("dgates", (4 * hidden, time, streams), dh)
    dc, before = state_gradients(last, hidden, width, streams, dh)
    results = total, dgates, dc, before
    if depths := compiled_depths(tape, projection):
        steps.backward(dh, kernel[len(kernel) - width:], projection, depths[1], tape.arrays(), *results, initial)
    else:
        blas_backward(dh, tape, kernel, projection, *results, initial)
    return total, dgates.reshape(4 * hidden, -1), *((dc.T, before.T) if initial else (None, None))


def blas_backward(dh, tape, kernel, projection, total, dgates, dc, before, initial):
    """Fill total and dgates, step by step. Like ``steps.backward``, but BLAS computes the products."""
    work, feedback, (time, streams, width), hidden = tape.workspace, tape.feedback, dh.shape, tape.c.shape[1]
    recurrent = kernel[len(kernel) - width:]
    step, dm = work.array("step", (4 * hidden, streams), dh), work.array("dm", (hidden, streams), dh)
    for t in range(time - 1, -1, -1):
        if feedback is not None:
            d = None if t == time - 1 else fed_rows(kernel, width, feedback) @ step
            before += feedback.backward(t, None if d is None else d.T).T
        if projection is None:
            transpose(dh[t], dm)
            dm += before
        else:
            np.add(dh[t], before.T, out=total[t])
            np.matmul(projection, total[t].T, out=dm)
        gone = tape.ended[t]
        if gone is not None:
            kept = dc[:, gone], dh[t, gone].T + before[:, gone]
        fast.cell_backward(dm, dc, tape.activations[t], tape.c[t], tape.tanh_c[t], step)
        if gone is not None:
            step[:, gone], dc[:, gone], total[t, gone] = 0, kept[0], 0
        dgates[:, t] = step
        if t or initial:
            np.matmul(recurrent, step, out=before)
            if gone is not None:
                before[:, gone] = kept[1]


def state_gradients(last, hidden, width, streams, like):
    """Return new arrays of the gradients of the last c and h, transposed. last: (dc, dh), or None for zeros."""
    if last is None:
        return np.zeros((hidden, streams), like.dtype), np.zeros((width, streams), like.dtype)
    return tuple(np.array(d.T, dtype=like.dtype, order="C") for d in last)


def ended_streams(lengths, time):
    """Return, for each step, the streams that have ended before it: (k,) int64, or None. Local."""
    if lengths is None:
        return [None] * time
    ended = [np.flatnonzero(np.asarray(lengths) <= t) for t in range(time)]
    return [gone if len(gone) else None for gone in ended]


def check_shapes(x, kernel, bias, projection, c0, h0, lengths):
    """Raise ValueError, which names the array, if a shape or dtype does not follow from x, c0 and h0."""
    (_, streams, inputs), hidden, width = x.shape, c0.shape[-1], h0.shape[-1]
    expected = {"kernel": (kernel, (inputs + width, 4 * hidden)), "bias": (bias, (4 * hidden,)),
                "c0": (c0, (streams, hidden)), "h0": (h0, (streams, width))}
    if projection is not None:
        expected["projection"] = (projection, (hidden, width))
    elif hidden != width:
        raise ValueError(f"h0 is {width} wide and c0 {hidden}: without a projection they must be equal")
    if lengths is not None and np.shape(lengths) != (streams,):
        raise ValueError(f"lengths has shape {np.shape(lengths)}, expected ({streams},) for x {x.shape}")
    for name, (array, shape) in expected.items():
        if array.shape != shape:
            raise ValueError(f"{name} has shape {array.shape}, expected {shape} for x {x.shape}, c0 {c0.shape}, "
                             f"h0 {h0.shape}")
        if array.dtype != x.dtype:
            raise ValueError(f"{name} is {array.dtype} and x is {x.dtype}: convert one of them")


def transposed_product(left, right, space, out):
    """Write ``(left @ right).T`` to ``out``. Local.

    BLAS is faster if neither factor is transposed. So the product is written to ``space`` and then transposed, which
    costs less.
    """
    transpose(np.matmul(left, right, out=space), out)
