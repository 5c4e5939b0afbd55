"""Deviations of owners without barriers: each a whole play of the script with one fault."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import numbers_of
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.rules.owner import served
from refimpl.conformance.space.deviation import Deviation, Impossible, Machine, Place

WORDS = {
    "stale-dropped": "a stale gradient is silently dropped: only pushes of workers that pulled the newest version "
                     "count",
    "late-counted": "a late push is not dropped: it counts for a step whose values its worker had not pulled",
    "clock-early": "the clock is off by one: a worker S - 1 steps ahead of the slowest is the last to go on, not one "
                   "S steps ahead",
    "clock-late": "the clock is off by one: a worker S + 1 steps ahead of the slowest goes on, though it should wait",
    "divided-by-workers": "an update's mean is not rescaled: its pushes are divided by N, the number of workers, not "
                          "by their own number",
    "summed": "the pushes of an update are added: their mean is wanted",
    "staleness-per-worker": "staleness is counted per worker, not per row: by the owner's updates since the worker "
                            "pulled, whichever rows they touched",
    "aliased": "the old value that the delta is taken against is an alias of the current one: the delta is 0, and "
               "nothing is compensated",
    "uncorrected": "staleness is not corrected: gradients are applied as they came",
}


class Served(Machine):
    """The answers to a case of kind owner: what each pull gets, and whether it waited."""

    def __init__(self, case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        kind, variable = deviations[0].fault or ("", None) if deviations else ("", None)
        self.pulls = served(case, kind, variable) if not kind or _possible(kind, case.settings["task"]) else None

    def answer(self, place: Place) -> Expected:
        """Return what a pull gets. Local. Raises Impossible where the fault changes nothing, or ends in a hang."""
        if self.pulls is None:
            raise Impossible
        want = self.pulls[place.step][place.variable.name]
        if not self.deviations or place.variable.name == "waited":
            return want
        eps = 64 * np.finfo(np.float32).eps  # a fault's numbers need not be exact
        return replace(want, tolerance=np.maximum(want.tolerance, eps * np.abs(numbers_of(want.value))))


def _possible(kind, task) -> bool:
    rule, correction = task["consistency"].partition(":")[0], task["correction"]
    return {"stale-dropped": rule != "backup", "late-counted": rule == "backup", "clock-early": rule == "bounded",
            "clock-late": rule == "bounded", "divided-by-workers": True, "summed": rule in ("softsync", "backup"),
            "staleness-per-worker": correction == "staleness-aware", "uncorrected": correction == "staleness-aware",
            "aliased": correction.startswith("dc-asgd")}[kind]


def deviations(cases) -> list[Deviation]:
    """Return each fault; an aliased old value in all variables, or in one. Local."""
    found = []
    for kind, words in WORDS.items():
        names = dict.fromkeys(v.name for case in cases for v in case.variables) if kind == "aliased" else ()
        found += [Deviation(kind, f"{words}{f': {name}' if name else ''}", fault=(kind, name))
                  for name in (None, *names)]
    return found
