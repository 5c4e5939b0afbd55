"""Hypotheses about training: each known fault is simulated and held against what the adapter did."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.cases.training import start_of
from refimpl.conformance.compare import differences
from refimpl.conformance.diagnose.diagnosis import Diagnosis, explains, failing, names_in_words, ranks_in_words
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.rules.aggregate import Wanted
from refimpl.conformance.rules.training import Fault, with_fault

WORDS = {
    "local": "each rank updates with its own gradient: nothing is reduced",
    "one-by-one": "the optimizer is applied to each worker's gradient in turn, not once to their aggregate",
    "shares-one-by-one": "the optimizer is applied to each worker's share in turn, not once to their sum",
    "duplicates-apart": "rows that share an id are updated one after the other, not added first",
    "micro-clock": "accumulation advances the optimizer's step or rate with every micro-step, not with every update",
    "loss-scale-kept": "the loss scale is not removed before the update",
    "local-norm": "gradients are clipped by the rank's own norm, not by the global one",
    "rate-restarted": "the learning rate starts anew after resuming",
    "clock-restarted": "the optimizer's step counter starts anew after resuming",
    "state-lost": "the optimizer's state is lost on resuming",
    "parameter-reduced": "the parameters are averaged over the ranks, not the gradients",
    "parameter-summed": "the parameters are summed over the ranks, not the gradients",
    "not-broadcast": "replicas start from different values: they are not broadcast",
}


TOGETHER = ("loss-scale-kept", "parameter-reduced", "parameter-summed", "not-broadcast")
"""Faults of a rank that change other ranks' numbers: subsets are tried. Others show on just their ranks."""


def faulty(evidence, verdict):
    """Try each fault: on whichever ranks show it, or on all, all but rank 0, and one of them."""
    case = evidence.case
    if KINDS[case.kind].stage != "update":
        return None
    for kind in (kind for kind in WORDS if _possible(kind, case.settings)):
        for variable in [None, *(v.name for v in case.variables)] if kind == "not-broadcast" else [None]:
            ranks = _ranks_hit(evidence, kind, variable)
            if ranks:
                where = "" if len(ranks) == case.ranks else f", on {ranks_in_words(ranks)}"
                which = f": {variable}" if variable else ""
                return Diagnosis(kind, f"{WORDS[kind]}{which}{where}", f"simulated: every value of "
                                 f"{names_in_words(failing(evidence))} after every update agrees")
    return None


def _ranks_hit(evidence, kind, variable) -> list[int] | None:
    """Return the ranks on which a fault explains all that failed, the others being right; None if it does not."""
    ranks = evidence.case.ranks
    if kind in TOGETHER:
        everyone = tuple(range(ranks))
        subsets = [everyone, everyone[1:], *((r,) for r in everyone)]
        return next((list(hit) for hit in subsets
                     if explains(evidence, _predicted(evidence, Fault(kind, hit, variable)))), None)
    predicted = _predicted(evidence, Fault(kind, tuple(range(ranks)), variable))
    wrong = {rank for places in failing(evidence).values() for _, rank in places}
    mixed = [{name: {r: w[r] if r in wrong else want[name] for r in range(ranks)} for name, w in step.items()}
             for want, step in zip(evidence.wanted, predicted)]
    return sorted(wrong) if explains(evidence, mixed) else None


def _possible(kind, settings) -> bool:
    task = settings["task"]
    needs = {"micro-clock": task.get("window", 1) > 1, "loss-scale-kept": task.get("loss_scale", 1.0) != 1.0,
             "local-norm": task.get("clip") is not None, "not-broadcast": settings["starts"]}
    return needs.get(kind, kind not in ("rate-restarted", "clock-restarted", "state-lost") or "resume_after" in task)


def _predicted(evidence, fault):
    values = with_fault(evidence.case, evidence.semantics, fault)
    result: list[dict] = []
    for wanted, ranks in zip(evidence.wanted, values, strict=True):
        result.append({})
        for name, want in wanted.items():
            eps = 256 * np.finfo(want.dtype).eps  # in proportion where the fault made numbers much larger
            result[-1][name] = {r: Wanted(v[name], np.maximum(want.tolerance, eps * np.abs(v[name])), want.dtype)
                                for r, v in enumerate(ranks)}
    return result


def half_applied(evidence, verdict):
    """Some variable is, on some ranks, what it was one update earlier."""
    if KINDS[evidence.case.kind].stage != "update":
        return None
    places = [(step, rank, name) for name, where in failing(evidence).items() for step, rank in where]
    if not places or len({name for _, _, name in places}) == len(evidence.case.variables):
        return None
    for step, rank, name in places:
        value = next(v for r, v in evidence.observed[step][name] if r == rank)
        start = start_of(evidence.case, 0)[name]
        before = (replace(evidence.wanted[step - 1][name], canonical=None) if step else
                  Wanted(start.astype(np.float64), np.zeros(start.shape), str(start.dtype)))
        if differences(value, before)[2].any():
            return None
    step, rank, name = places[0]
    return Diagnosis("half-applied", f"{ranks_in_words(sorted({r for _, r, _ in places}))} read {name} as it was one "
                     "update earlier, other variables as they are: a step was seen half applied",
                     f"first after update {step}")


HYPOTHESES = (faulty, half_applied)
