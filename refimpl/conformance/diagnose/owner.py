"""Hypotheses about owners without barriers: each known fault is simulated and held against what the pulls got."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import numbers_of
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, names_in_words
from refimpl.conformance.rules.aggregate import Wanted
from refimpl.conformance.rules.owner import served

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


def faulty_owner(evidence, verdict):
    """Try each fault; one of the old values in all variables, or in one."""
    case = evidence.case
    if case.kind != "owner":
        return None
    for kind in (kind for kind in WORDS if _possible(kind, case.settings["task"])):
        for variable in [None, *(v.name for v in case.variables)] if kind == "aliased" else [None]:
            answers = served(case, kind, variable)
            if answers is not None and explains(evidence, [_loose(step) for step in answers]):
                return Diagnosis(kind, f"{WORDS[kind]}{f': {variable}' if variable else ''}", f"simulated: "
                                 f"{names_in_words(failing(evidence))} agree in every pull")
    return None


def _possible(kind, task) -> bool:
    rule, correction = task["consistency"].partition(":")[0], task["correction"]
    return {"stale-dropped": rule != "backup", "late-counted": rule == "backup", "clock-early": rule == "bounded",
            "clock-late": rule == "bounded", "divided-by-workers": True, "summed": rule in ("softsync", "backup"),
            "staleness-per-worker": correction == "staleness-aware", "uncorrected": correction == "staleness-aware",
            "aliased": correction.startswith("dc-asgd")}[kind]


def _loose(step) -> dict[str, Wanted]:
    """Return a prediction within rounding: a fault's numbers need not be exact."""
    eps = 64 * np.finfo(np.float32).eps
    return {name: want if name == "waited" else
            replace(want, tolerance=np.maximum(want.tolerance, eps * np.abs(numbers_of(want.value))))
            for name, want in step.items()}


HYPOTHESES = (faulty_owner,)
