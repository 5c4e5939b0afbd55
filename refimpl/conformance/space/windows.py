"""Deviations of accumulation windows, of the loss scale, and of what is restored on resuming."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.cases.training import start_of
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
        if not own or machine.case.ranks == 1:
            raise Impossible
        return replace(want, value=joined([machine.of_window(place, together).value, *own]))

    return if_task("window", changed)


def _micro_steps(machine, place) -> int:
    """Return how many micro-steps there were before an update."""
    return sum(len(window) for window in machine.windows[:place.step])


def _parts(kept):
    return if_task("window", lambda parts, machine, place: kept(parts))


WINDOWS = (
    ("window-last", "of a window the last micro-step alone counts", "accumulated", _parts(lambda p: p[-1:])),
    ("window-first", "of a window the first micro-step alone counts", "accumulated", _parts(lambda p: p[:1])),
    ("window-twice", "of a window the first micro-step counts twice", "accumulated", _parts(lambda p: [p[0], *p])),
    ("micro-clock", "accumulation advances the optimizer's step or rate with every micro-step, not with every update",
     "ticks", if_task("window", lambda right, m, p: len(m.windows[p.step]))),
    ("loss-scale-kept", "the loss scale is not removed before the update", "loss scale",
     if_task("loss_scale", lambda right, m, p: 1.0)),
    ("loss-scale-twice", "the loss scale is removed twice", "loss scale",
     if_task("loss_scale", lambda right, m, p: right * right)),
    ("window-partly-reduced", "of a window the last micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[-1:])),
    ("window-partly-reduced", "of a window the first micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[:1])),
    ("rate-per-micro-step", "the learning rate falls with every micro-step, not with every update", "rate",
     if_task("window", lambda right, m, p: m.plain.rate(m.task, _micro_steps(m, p)))),
    ("clock-per-micro-step", "the optimizer's step counter advances with every micro-step, not with every update",
     "clock", if_task("window", lambda right, m, p: _micro_steps(m, p) + 1)),
)
"""(code, words, decision, change), of the micro-steps of a window."""


def _restored(change):
    def changed(right, machine, place):
        change(right, machine)
        return right

    return if_task("resume_after", changed)


def _kept(change):
    """Restore a variable otherwise: change(machine, its name, value, state) -> (value, state)."""
    return if_task("resume_after", lambda right, m, p: change(m, p.variable.name, *right))


def _with_fresh(slot):
    def change(machine, name, value, state):
        if slot not in state:
            raise Impossible
        return value, {**state, slot: machine.plain.first_state(machine.task, {name: value})[name][slot]}

    return change


def _started(machine, name, value, state):
    return start_of(machine.case, 0)[name].astype(np.float64), state


RESUMING = (
    ("state-lost", "the optimizer's state is lost on resuming", "restored variable",
     _kept(lambda m, name, value, state: (value, m.plain.first_state(m.task, {name: value})[name]))),
    ("rate-restarted", "the learning rate starts anew after resuming", "restored",
     _restored(lambda replica, m: setattr(replica, "updates", 0))),
    ("clock-restarted", "the optimizer's step counter starts anew after resuming", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", 0))),
    ("state-lost", "the optimizer's first moment is lost on resuming", "restored variable",
     _kept(_with_fresh("first"))),
    ("state-lost", "the optimizer's second moment is lost on resuming", "restored variable",
     _kept(_with_fresh("second"))),
    ("parameters-lost", "training resumes from the initial parameters", "restored variable",
     _kept(_started)),
    ("clock-ahead", "after resuming the optimizer's step counter is one too large", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", replica.clock + 1))),
    ("clock-behind", "after resuming the optimizer's step counter is one too small", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", max(0, replica.clock - 1)))),
    ("rate-ahead", "after resuming the learning rate is one update ahead", "restored",
     _restored(lambda replica, m: setattr(replica, "updates", replica.updates + 1))),
    ("state-zeroed", "after resuming the optimizer's state is 0", "restored variable",
     _kept(lambda m, name, value, state: (value, {slot: np.zeros_like(a) for slot, a in state.items()}))),
    ("rate-twice", "after resuming the learning rate is twice as far as it was: the schedule is advanced again by all "
     "updates done", "restored", _restored(lambda replica, m: setattr(replica, "updates", 2 * replica.updates))),
    ("clock-twice", "after resuming the optimizer's step counter is twice what it was", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", 2 * replica.clock))),
)
"""(code, words, decision, change), of what is saved and restored."""
