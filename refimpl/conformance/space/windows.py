"""Deviations of accumulation windows, and of what is restored on resuming."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.space.deviation import Impossible, concatenated, parametrised
from refimpl.conformance.space.manifest import if_task
from refimpl.conformance.space.numbers import miscounts
from refimpl.plain.adding.rows import merge_occurrences


def joined(parts):
    """Return the sum of gradients of one variable. Local."""
    return merge_occurrences(concatenated(parts))


@parametrised
def _partly_reduced(reduced, want, machine, place):
    """Reduce some micro-steps of a window; the others' gradients stay each rank's own. reduced(window) -> of these."""
    window = machine.windows[place.step]
    together = reduced(window)
    own = [machine.part_of_window(place, [step]) for step in window if step not in together]
    return replace(want, value=joined([machine.of_window(place, together).value, *own])) if own else want


@parametrised
def _counted(there, change, parts, machine, place):
    """Count micro-steps otherwise. change(numbers) -> numbers, if those that are there are in the window."""
    if len(parts) == 1 or max(there) >= len(parts):
        raise Impossible
    return [parts[k] for k in change(range(len(parts)))]


WINDOWS = if_task("window", (
    *(("micro-step-miscounted", f"of a window {words}", "accumulated", _counted(there, change))
      for words, there, change in miscounts("micro-step", 2)),
    ("window-partly-reduced", "of a window the last micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[-1:])),
    ("window-partly-reduced", "of a window the first micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[:1])),
))


def _fresh(m, value):
    """Return the optimizer's arrays before the first update."""
    return m.plain.first_state(m.task, {"": value})[""]


@parametrised
def _with_fresh(slot, right, m, p):
    value, state = right
    if slot not in state:
        raise Impossible
    return value, {**state, slot: _fresh(m, value)[slot]}


RESUMING = if_task("resume_after", (
    ("state-lost", "the optimizer's state is lost on resuming", "restored variable",
     lambda right, m, p: (right[0], _fresh(m, right[0]))),
    ("state-lost", "the optimizer's first moment is lost on resuming", "restored variable", _with_fresh("first")),
    ("state-lost", "the optimizer's second moment is lost on resuming", "restored variable", _with_fresh("second")),
    ("parameters-lost", "training resumes from the initial parameters", "restored variable",
     lambda right, m, p: (m.start(0)[p.variable.name].astype(np.float64), right[1])),
    ("state-zeroed", "after resuming the optimizer's state is 0", "restored variable",
     lambda right, m, p: (right[0], {slot: np.zeros_like(a) for slot, a in right[1].items()})),
))
