"""Name the bugs: find the deviations that predict all numbers. If there is none, say where the numbers are wrong.

A deviation is believed only if it predicts every number of a case, right and wrong, on every rank and in every step,
within the tolerance of an expectation. No other case of the same function may contradict it.
"""

import numpy as np

from refimpl.conformance.diagnose.localise import localise
from refimpl.conformance.diagnose.search import search
from refimpl.conformance.diagnose.told import Diagnosis, of_error, of_property, told
from refimpl.conformance.kinds import KINDS


def diagnose(judged) -> None:
    """Give every failed verdict its diagnosis. judged: (verdict, evidence or None) of all cases of a target. Local."""
    if all(verdict.status != "failed" for verdict, _ in judged):
        return
    with np.errstate(all="ignore"):  # wrong hypotheses about wrong numbers may overflow
        for verdict, evidence in judged:
            if verdict.status == "failed":
                verdict.diagnosis = of_error(evidence, verdict) or of_property(evidence, verdict)
        numbers = {id(e): v for v, e in judged if e is not None and e.observed and v.diagnosis is None}
        searched = [e for _, e in judged if id(e) in numbers and KINDS[e.case.kind].machine]
        fits, left = search(searched)
        for fit in fits:
            named = told(fit)
            for answers in fit.explained:
                numbers[id(answers.evidence)].diagnosis = named
        for part in dict.fromkeys(part_of(answers.case) for answers in left):
            these = [answers for answers in left if part_of(answers.case) == part]
            right = [e.case for v, e in judged if id(e) in numbers and v.status == "passed" and
                     KINDS[e.case.kind].machine and part_of(e.case) == part]
            place = localise(these, right, numbers)
            for answers in these:
                numbers[id(answers.evidence)].diagnosis = place


def part_of(case) -> str:
    """Return the function of the adapter that a case tests; the stage, if it is a training. Local."""
    kind = KINDS[case.kind]
    return kind.stage if kind.stage == "update" else kind.functions[0]


def summary(verdicts) -> list[tuple[Diagnosis, list[str]]]:
    """Return (diagnosis, names of the cases it explains), the one that explains most first. Local.

    Diagnoses without a name, and errors, come last: they say where, not why.
    """
    groups: dict[tuple[str, str], tuple[Diagnosis, list[str]]] = {}
    found_errors = [v.diagnosis for v in verdicts if v.diagnosis is not None and v.diagnosis.code == "error"]
    plain = {error.evidence.split("; ")[0]: error for error in found_errors}
    for verdict in verdicts:
        if (found := verdict.diagnosis) is not None:
            if found.code in ("empty-row-gradient", "absent-gradient"):
                # unless inputs that are not special raise the same
                found = plain.get(found.evidence.split("; ")[0], found)
            groups.setdefault((found.code, found.words), (found, []))[1].append(verdict.case)
    return sorted(groups.values(), key=lambda pair: (pair[0].vague, -len(pair[1])))


__all__ = ["Diagnosis", "diagnose", "summary"]
