"""``sequence`` on a GPU: each step computes only what depends on the previous step; the rest is one product.

Rows are streams. No array is transposed, because cuBLAS has a flag for this. A forward step has three launches: a
product added to the inputs' part, the cell, and the projection. A backward step has three launches, too.
"""

from dataclasses import dataclass
from typing import Any

from kernels.arrays import array_module
from kernels.cuda.product import add_product, write_product
from kernels.lstm.cuda import cell_backward, cell_forward, sum_of_rows
from kernels.lstm.definition import fed_rows


@dataclass
class CudaTape:
    """The arrays that the backward pass reads, a slice for each step; valid until the workspace is used again.

    x: (time, streams, inputs).  h: (time + 1, streams, width) and c: (time + 1, streams, hidden), beginning with the
    state before the first step.  activations: (time, streams, 4 * hidden).  tanh_c, m: (time, streams, hidden).
    """

    x: Any
    h: Any
    c: Any
    activations: Any
    tanh_c: Any
    m: Any
    workspace: Any
    ended: list
    feedback: Any

    def last_state(self):
        """Return new arrays c: (streams, hidden) and h: (streams, width), the state after the last step."""
        return self.c[-1].copy(), self.h[-1].copy()


def lstm_forward(x, kernel, bias, projection, c0, h0, work, ended, feedback):
    """See ``sequence.lstm_forward``."""
    xp, (time, streams, inputs), hidden, width = array_module(x), x.shape, c0.shape[1], h0.shape[1]
    h, c = work.array("h", (time + 1, streams, width), x), work.array("c", (time + 1, streams, hidden), x)
    m = h[1:] if projection is None else work.array("m", (time, streams, hidden), x)
    gates, tanh_c = work.array("gates", (time, streams, 4 * hidden), x), work.array("tanh_c", m.shape, x)
    ended = [None if gone is None else xp.asarray(gone) for gone in ended]
    x = xp.ascontiguousarray(x) if feedback is None else xp.array(x, order="C")  # feedback writes to x
    tape = CudaTape(x, h, c, gates, tanh_c, m, work, ended, feedback)
    h[0], c[0] = h0, c0
    given = inputs if feedback is None else inputs - feedback.columns
    xp.matmul(tape.x.reshape(-1, inputs)[:, :given], kernel[:given], out=gates.reshape(-1, 4 * hidden))
    for t in range(time):
        add_product(h[t], kernel[inputs:], gates[t])
        if feedback is not None:
            add_product(tape.x[t, :, given:], kernel[given:inputs], gates[t])
        cell_forward(gates[t], bias, c[t], c[t + 1], tanh_c[t], m[t])
        if projection is not None:
            write_product(m[t], projection, h[t + 1])
        if (gone := ended[t]) is not None:
            c[t + 1, gone], h[t + 1, gone] = c[t, gone], h[t, gone]
        if feedback is not None:
            fed = feedback.forward(t, h[t + 1])
            if t + 1 < time:
                tape.x[t + 1, :, given:] = fed
    return h[1:], tape


def lstm_backward(dh, tape, kernel, projection, initial, last):
    """See ``sequence.lstm_backward``."""
    xp, (time, streams, width) = array_module(dh), dh.shape
    hidden, inputs = tape.c.shape[2], tape.x.shape[2]
    total, dgates, dc, dh0 = steps_backward(dh, tape, kernel, projection, initial, last)
    rows, dkernel = dgates.reshape(-1, 4 * hidden), xp.empty_like(kernel)
    xp.matmul(tape.x.reshape(-1, inputs).T, rows, out=dkernel[:inputs])
    xp.matmul(tape.h[:-1].reshape(-1, width).T, rows, out=dkernel[inputs:])
    dprojection = None
    if projection is not None:
        dprojection = xp.matmul(tape.m.reshape(-1, hidden).T, total.reshape(-1, width))
    dx = xp.matmul(rows, kernel[:inputs].T).reshape(time, streams, inputs)
    return dx, dkernel, sum_of_rows(rows), dprojection, dc if initial else None, dh0


def steps_backward(dh, tape, kernel, projection, initial, last):
    """Go back in time: return the gradients of each h, of the gates, and of c0 and h0 (or None).

    Shapes of the results: as dh; as the activations; as c0 and h0.
    """
    xp, work, time = array_module(dh), tape.workspace, len(dh)
    total, dgates = work.array("dh", dh.shape, dh), work.array("dgates", tape.activations.shape, dh)
    dm, dc = work.array("dm", tape.c.shape[1:], dh), xp.zeros(tape.c.shape[1:], dh.dtype)
    recurrent, feedback = kernel[len(kernel) - dh.shape[2]:], tape.feedback
    total[...] = dh
    dh0 = xp.zeros(dh.shape[1:], dh.dtype) if initial else None
    if last is not None:
        dc[...] = last[0]
        if time:
            total[-1] += last[1]
        elif initial:
            dh0[...] = last[1]
    for t in range(time - 1, -1, -1):
        if feedback is not None:
            d = None if t == time - 1 else dgates[t + 1] @ fed_rows(kernel, dh.shape[2], feedback).T
            total[t] += feedback.backward(t, d)
        gone = tape.ended[t]
        if gone is not None:
            kept, total[t, gone] = (dc[gone], total[t, gone]), 0
        if projection is not None:
            write_product(total[t], projection.T, dm)
        step = total[t] if projection is None else dm
        cell_backward(step, dc, tape.activations[t], tape.c[t], tape.tanh_c[t], dgates[t])
        if gone is not None:
            dgates[t, gone], dc[gone] = 0, kept[0]
        if t or initial:
            earlier = total[t - 1] if t else dh0
            add_product(dgates[t], recurrent.T, earlier)
            if gone is not None:
                earlier[gone] += kept[1]
    return total, dgates, dc, dh0
