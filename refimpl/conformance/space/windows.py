"""Deviations of accumulation windows, of the loss scale, and of what is restored on resuming."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.space.deviation import Impossible, concatenated
from refimpl.conformance.space.manifest import if_task
from refimpl.plain.rows import merge_occurrences


def joined(parts):
    """Return the sum of gradients of one variable. Local."""
    return merge_occurrences(concatenated(parts))


def _partly_reduced(reduced):
    """Reduce some micro-steps of a window; the others' gradients stay each rank's own. reduced(window) -> of these."""
    def changed(want, machine, place):
        window = machine.windows[place.step]
        together = reduced(window)
        own = [machine.part_of_window(place, [step]) for step in window if step not in together]
        if not own:
            return want
        return replace(want, value=joined([machine.of_window(place, together).value, *own]))

    return changed


def _micro_steps(machine, place) -> int:
    """Return how many micro-steps there were before an update."""
    return sum(len(window) for window in machine.windows[:place.step])


WINDOWS = if_task("window", (
    ("window-last", "of a window the last micro-step alone counts", "accumulated", lambda parts, m, p: parts[-1:]),
    ("window-first", "of a window the first micro-step alone counts", "accumulated", lambda parts, m, p: parts[:1]),
    ("window-twice", "of a window the first micro-step counts twice", "accumulated",
     lambda parts, m, p: [parts[0], *parts]),
    ("micro-clock", "accumulation advances the optimizer's step or rate with every micro-step, not with every update",
     "ticks", lambda right, m, p: len(m.windows[p.step])),
    ("loss-scale-kept", "the loss scale is not removed before the update", "loss scale", lambda right, m, p: 1.0,
     "loss_scale"),
    ("loss-scale-twice", "the loss scale is removed twice", "loss scale", lambda right, m, p: right * right,
     "loss_scale"),
    ("window-partly-reduced", "of a window the last micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[-1:])),
    ("window-partly-reduced", "of a window the first micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[:1])),
    ("rate-per-micro-step", "the learning rate falls with every micro-step, not with every update", "rate",
     lambda right, m, p: m.plain.rate(m.task, _micro_steps(m, p))),
    ("clock-per-micro-step", "the optimizer's step counter advances with every micro-step, not with every update",
     "clock", lambda right, m, p: _micro_steps(m, p) + 1),
))
"""(code, words, decision, change), of the micro-steps of a window."""


def _fresh(m, value):
    """Return the optimizer's arrays before the first update."""
    return m.plain.first_state(m.task, {"": value})[""]


def _with_fresh(slot):
    def changed(right, m, p):
        value, state = right
        if slot not in state:
            raise Impossible
        return value, {**state, slot: _fresh(m, value)[slot]}

    return changed


RESUMING = if_task("resume_after", (
    ("state-lost", "the optimizer's state is lost on resuming", "restored variable",
     lambda right, m, p: (right[0], _fresh(m, right[0]))),
    ("rate-restarted", "the learning rate starts anew after resuming", "restored",
     lambda right, m, p: replace(right, updates=0)),
    ("clock-restarted", "the optimizer's step counter starts anew after resuming", "restored",
     lambda right, m, p: replace(right, clock=0)),
    ("state-lost", "the optimizer's first moment is lost on resuming", "restored variable", _with_fresh("first")),
    ("state-lost", "the optimizer's second moment is lost on resuming", "restored variable", _with_fresh("second")),
    ("parameters-lost", "training resumes from the initial parameters", "restored variable",
     lambda right, m, p: (m.start(0)[p.variable.name].astype(np.float64), right[1])),
    ("clock-ahead", "after resuming the optimizer's step counter is one too large", "restored",
     lambda right, m, p: replace(right, clock=right.clock + 1)),
    ("clock-behind", "after resuming the optimizer's step counter is one too small", "restored",
     lambda right, m, p: replace(right, clock=max(0, right.clock - 1))),
    ("rate-ahead", "after resuming the learning rate is one update ahead", "restored",
     lambda right, m, p: replace(right, updates=right.updates + 1)),
    ("state-zeroed", "after resuming the optimizer's state is 0", "restored variable",
     lambda right, m, p: (right[0], {slot: np.zeros_like(a) for slot, a in right[1].items()})),
    ("rate-twice", "after resuming the learning rate is twice as far as it was: the schedule is advanced again by all "
     "updates done", "restored", lambda right, m, p: replace(right, updates=2 * right.updates)),
    ("clock-twice", "after resuming the optimizer's step counter is twice what it was", "restored",
     lambda right, m, p: replace(right, clock=2 * right.clock)),
))
"""(code, words, decision, change), of what is saved and restored."""
