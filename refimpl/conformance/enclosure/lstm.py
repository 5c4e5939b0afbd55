"""The LSTM on enclosures: each product is one sum with what is added to it, as a device may begin that sum with either.

The formulas are those of ``kernels.lstm.definition``, transposed by hand as in ``kernels.lstm.cuda_sequence``; the tape
is a list of steps. Sigmoid is bounded by its own slope, at most 1/4, which the operations that make it up would hide.
"""

from dataclasses import dataclass

import numpy as np

from kernels.lstm.definition import FORGET_BIAS
from refimpl.conformance.enclosure import elementwise, sums
from refimpl.conformance.enclosure.enclosure import Enclosure
from refimpl.conformance.enclosure.moves import concatenate, split, zeros


@dataclass
class Step:
    """What a step's backward pass reads: rows are streams. gates: the activations i, j, f, o.  c: the state before."""

    xh: Enclosure
    gates: list
    c: Enclosure
    tanh_c: Enclosure
    m: Enclosure


@dataclass
class Tape:
    """All steps, and the state after the last."""

    steps: list
    c: Enclosure
    h: Enclosure

    def last_state(self):
        """Return c: (streams, hidden) and h: (streams, width)."""
        return self.c.copy(), self.h.copy()


def lstm_forward(x, kernel, bias, projection, c0, h0, work):
    """See ``kernels.lstm.sequence.lstm_forward``."""
    dtype, c, h, steps, outputs = kernel.dtype, c0.copy(), h0.copy(), [], []
    for x_t in x:
        xh = concatenate([x_t, h], axis=1)
        i, j, f, o = split(sums.matmul(xh, kernel, dtype, plus=bias), 4, axis=1)
        i, j, f, o = (elementwise.sigmoid(i, dtype), elementwise.tanh(j, dtype),
                      elementwise.sigmoid(f + FORGET_BIAS, dtype), elementwise.sigmoid(o, dtype))
        before, c = c, f * c + i * j
        tanh_c = elementwise.tanh(c, dtype)
        m = o * tanh_c
        h = m if projection is None else m @ projection
        steps.append(Step(xh, [i, j, f, o], before, tanh_c, m))
        outputs.append(h[None])
    return concatenate(outputs), Tape(steps, c, h)


def lstm_backward(dh, tape, kernel, projection, initial):
    """See ``kernels.lstm.sequence.lstm_backward``."""
    dtype, width = kernel.dtype, dh.shape[2]
    inputs, recurrent = len(kernel) - width, kernel[len(kernel) - width:]
    total, dc, gates, outputs = dh[-1], zeros(tape.c.shape, dtype), [], []
    for t in reversed(range(len(tape.steps))):
        step = tape.steps[t]
        outputs.append(total)
        dgates, dc = _cell_backward(total if projection is None else total @ projection.T, dc, step)
        gates.append(dgates)
        earlier = dh[t - 1] if t else zeros(dh.shape[1:], dtype)
        total = sums.matmul(dgates, recurrent.T, dtype, plus=earlier)
    rows, outputs = concatenate(gates[::-1]), concatenate(outputs[::-1])
    xh, m = (concatenate([getattr(step, name) for step in tape.steps]) for name in ("xh", "m"))
    dx = (rows @ kernel[:inputs].T).reshape(*dh.shape[:2], inputs)
    return (dx, xh.T @ rows, rows.sum(axis=0), None if projection is None else m.T @ outputs,
            *((dc, total) if initial else (None, None)))


def _cell_backward(dm, dc, step):
    """Return the gradients with respect to the gates, (streams, 4 * hidden), and to c before the step."""
    (i, j, f, o), one = step.gates, np.float32(1)
    total = dc + dm * o * (one - step.tanh_c * step.tanh_c)
    dgates = [total * j * (i * (one - i)), total * i * (one - j * j), total * step.c * (f * (one - f)),
              dm * step.tanh_c * (o * (one - o))]
    return concatenate(dgates, axis=1), total * f
