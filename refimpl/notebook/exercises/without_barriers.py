"""Checks of lesson 9: which pulls bounded staleness answers, the time of a step with backup workers, DC-ASGD."""

from itertools import product
from types import SimpleNamespace

import numpy as np

from refimpl.notebook.exercises import answered, exercise, right, wrong
from refimpl.plain.without_barriers.consistencies import Bounded
from refimpl.plain.without_barriers.corrections import DelayCompensated

WORKERS, BOUNDS = 3, (0, 1, 2)
CLOCKS = tuple(product(range(4), repeat=WORKERS))
SECONDS = ([1.0, 1.0, 1.0, 3.0], [4.0, 2.0, 7.0, 5.0], [2.5, 0.5, 1.5, 3.5, 1.0], [6.0])


@exercise
def check_answers(answers):
    """Check a function answers(clocks, worker, s): whether bounded:s answers this worker's pull now."""
    for s, clocks, worker in product(BOUNDS, CLOCKS, range(WORKERS)):
        given = answered(answers(list(clocks), worker, s))
        lag = clocks[worker] - min(clocks)
        if bool(given) != Bounded(WORKERS, 9, s).answers(SimpleNamespace(clocks=clocks), worker):
            said = f"clocks {list(clocks)}, S = {s}: worker {worker} is {lag} steps ahead of the slowest, and "
            if given:
                return wrong(said + "you let it go on" + (": then its lag reaches S + 1" if lag == s + 1 else ""))
            return wrong(said + "you let it wait" + (": a lag of S is allowed" if lag == s else ""))
    return right("the lag reaches S, never S + 1; with S = 0 no worker begins a step before all have ended the last.")


@exercise
def check_step_seconds(step_seconds):
    """Check a function step_seconds(seconds, backup): the end of a step that all workers begin together."""
    for seconds in SECONDS:
        for backup in range(len(seconds)):
            given, needed = answered(step_seconds(list(seconds), backup)), len(seconds) - backup
            if not isinstance(given, (int, float)):
                return wrong(f"step_seconds({seconds}, {backup}) returned {given!r}: return seconds")
            if given != sorted(seconds)[needed - 1]:
                said = f"workers that take {seconds} s, and {backup} of them may be late: you say {given:g} s"
                if given > sorted(seconds)[needed - 1]:
                    return wrong(f"{said}; that is longer than need be: {needed} pushes are enough")
                return wrong(f"{said}; {needed} pushes are needed: put the workers in the order in which they arrive")
    return right("the (N - B)-th order statistic: B stragglers cost no time, however slow they are; B + 1 do.")


@exercise
def check_compensated(compensated):
    """Check a function compensated(g, x, old, lam): a gradient g of old values, corrected for the values x."""
    random = np.random.default_rng(9)
    for lam in (0.0, 0.04, 0.5):
        g, x, old = random.standard_normal((3, 4))
        given = np.asarray(answered(compensated(g, x, old, lam)))
        likely = {"": DelayCompensated(1, lam)("x", x, ..., g, None, old), "g alone is the stale gradient": g,
                  "the values have moved from old to x, not from x to old": g - lam * g * g * (x - old),
                  "the approximation of the curvature is g times g": g + lam * g * (x - old),
                  "that is the correction alone: add it to g": lam * g * g * (x - old)}
        hints = [hint for hint, value in likely.items() if value.shape == given.shape and np.allclose(given, value)]
        if "" not in hints:
            return wrong(hints[0] if hints else f"with λ = {lam:g} the result is another vector: begin with g, and add "
                         "λ times the approximate curvature times the difference between x and old")
    return right("with λ = 0 the gradient does not change; nor with x = old, when no other worker was faster.")
