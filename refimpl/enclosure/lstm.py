"""The LSTM on enclosures: each product is one sum with what is added to it, as a device may begin that sum with either.

The formulas are those of ``kernels.lstm.definition``, transposed by hand as in ``kernels.lstm.cuda_sequence``; the tape
is a list of steps. Sigmoid is bounded by its own slope, at most 1/4, which the operations that make it up would hide.
"""

from dataclasses import dataclass

import numpy as np

from kernels.lstm.definition import FORGET_BIAS, fed_rows
from refimpl.enclosure import elementwise, sums
from refimpl.enclosure.enclosure import Enclosure
from refimpl.enclosure.moves import concatenate, split, zeros


@dataclass
class EnclosedStep:
    """What a step's backward pass reads: rows are streams. gates: the activations i, j, f, o.  c: the state before."""

    xh: Enclosure
    gates: list
    c: Enclosure
    tanh_c: Enclosure
    m: Enclosure


@dataclass
class EnclosedTape:
    """All steps, the state after the last, and of each step the streams that have ended before it, or None."""

    steps: list
    c: Enclosure
    h: Enclosure
    ended: list
    feedback: object

    def last_state(self):
        """Return c: (streams, hidden) and h: (streams, width)."""
        return self.c.copy(), self.h.copy()


def lstm_forward(x, kernel, bias, projection, c0, h0, work, ended, feedback):
    """See ``kernels.lstm.sequence.lstm_forward``."""
    dtype, c, h, steps, outputs, fed = kernel.dtype, c0.copy(), h0.copy(), [], [], None
    for x_t, gone in zip(x, ended):
        if fed is not None:
            x_t = concatenate([x_t[:, :-feedback.columns], fed], axis=1)
        xh = concatenate([x_t, h], axis=1)
        i, j, f, o = split(sums.matmul(xh, kernel, dtype, plus=bias), 4, axis=1)
        i, j, f, o = (elementwise.sigmoid(i, dtype), elementwise.tanh(j, dtype),
                      elementwise.sigmoid(f + FORGET_BIAS, dtype), elementwise.sigmoid(o, dtype))
        before, c = (c, h), f * c + i * j
        tanh_c = elementwise.tanh(c, dtype)
        m = o * tanh_c
        h = m if projection is None else m @ projection
        steps.append(EnclosedStep(xh, [i, j, f, o], before[0], tanh_c, m))
        c, h = (_kept(old, new, gone) for old, new in zip(before, (c, h)))
        outputs.append(h[None])
        fed = None if feedback is None else feedback.forward(len(outputs) - 1, h)
    return concatenate(outputs), EnclosedTape(steps, c, h, ended, feedback)


def lstm_backward(dh, tape, kernel, projection, initial, last):
    """See ``kernels.lstm.sequence.lstm_backward``."""
    dtype, width = kernel.dtype, dh.shape[2]
    inputs, recurrent = len(kernel) - width, kernel[len(kernel) - width:]
    dc, later = (zeros(tape.c.shape, dtype), zeros(tape.h.shape, dtype)) if last is None else last
    total, fed, gates, outputs = dh[-1] + later, None, [], []
    for t in reversed(range(len(tape.steps))):
        step, gone = tape.steps[t], tape.ended[t]
        if tape.feedback is not None:
            total = total + tape.feedback.backward(t, fed)
        passed, total = total, _kept(zeros(total.shape, dtype), total, gone)
        outputs.append(total)
        dgates, before = _cell_backward(total if projection is None else total @ projection.T, dc, step)
        dgates, dc = _kept(zeros(dgates.shape, dtype), dgates, gone), _kept(dc, before, gone)
        gates.append(dgates)
        fed = None if tape.feedback is None else dgates @ fed_rows(kernel, width, tape.feedback).T
        earlier = dh[t - 1] if t else zeros(dh.shape[1:], dtype)
        earlier = earlier if gone is None else earlier + _kept(passed, zeros(passed.shape, dtype), gone)
        total = sums.matmul(dgates, recurrent.T, dtype, plus=earlier)
    rows, outputs = concatenate(gates[::-1]), concatenate(outputs[::-1])
    xh, m = (concatenate([getattr(step, name) for step in tape.steps]) for name in ("xh", "m"))
    dx = (rows @ kernel[:inputs].T).reshape(*dh.shape[:2], inputs)
    return (dx, xh.T @ rows, rows.sum(axis=0), None if projection is None else m.T @ outputs,
            *((dc, total) if initial else (None, None)))


def _kept(old, new, gone):
    """Return the old state of streams that have ended, the new one of the others."""
    if gone is None:
        return new
    result = new.copy()
    result[gone] = old[gone]
    return result


def _cell_backward(dm, dc, step):
    """Return the gradients with respect to the gates, (streams, 4 * hidden), and to c before the step."""
    (i, j, f, o), one = step.gates, np.float32(1)
    total = dc + dm * o * (one - step.tanh_c * step.tanh_c)
    dgates = [total * j * (i * (one - i)), total * i * (one - j * j), total * step.c * (f * (one - f)),
              dm * step.tanh_c * (o * (one - o))]
    return concatenate(dgates, axis=1), total * f
