"""Name the bug: hypotheses tried in turn on the evidence of a failed case, each a prediction of all its numbers.

A hypothesis is believed only if it predicts every number of the case, of what failed and of what did not, on every rank
and step, within the same tolerance as an expectation. So the words come with their evidence.
"""

import numpy as np

from refimpl.conformance.diagnose.counting import miscounted
from refimpl.conformance.diagnose.diagnosis import Diagnosis
from refimpl.conformance.diagnose.fallback import of_error, of_property, scaled, somewhere, unlike_ranks
from refimpl.conformance.diagnose.manifest import other_rule, two_other_rules
from refimpl.conformance.diagnose.mesh import HYPOTHESES as MESH
from refimpl.conformance.diagnose.owner import HYPOTHESES as OWNER
from refimpl.conformance.diagnose.structure import HYPOTHESES as STRUCTURE
from refimpl.conformance.diagnose.training import HYPOTHESES as TRAINING
from refimpl.conformance.diagnose.values import HYPOTHESES as VALUES

OF_NUMBERS = (*VALUES, other_rule, *STRUCTURE, *TRAINING, *OWNER, *MESH, two_other_rules, miscounted, scaled,
              unlike_ranks)
"""Hypotheses in the order in which they are tried, where every rank gave numbers."""


def diagnose(evidence, verdict) -> Diagnosis:
    """Return the first hypothesis that explains a failed case. Local; the last of them always does."""
    order = of_error, of_property, *(OF_NUMBERS if evidence.observed else ()), somewhere
    with np.errstate(all="ignore"):  # wrong hypotheses about wrong numbers: they overflow as they please
        return next(found for hypothesis in order if (found := hypothesis(evidence, verdict)) is not None)


def summary(verdicts) -> list[tuple[Diagnosis, list[str]]]:
    """Return (diagnosis, names of the cases it explains), the one that explains most first. Local.

    What no hypothesis explained, and plain errors, come last: they say where, not why.
    """
    groups: dict[str, tuple[Diagnosis, list[str]]] = {}
    found_errors = [v.diagnosis for v in verdicts if v.diagnosis is not None and v.diagnosis.code == "error"]
    by_case = {v.case: v.diagnosis for v in verdicts if v.diagnosis is not None}
    plain = {error.evidence.split("; ")[0]: error for error in found_errors}
    for verdict in verdicts:
        if (found := verdict.diagnosis) is not None:
            if found.code == "empty-row-gradient":  # unless inputs that are not special raise the same
                found = plain.get(found.evidence.split("; ")[0], found)
            if found.code in ("half-overflow", "denormals-flushed"):  # unless ordinary numbers are wrong too
                found = by_case.get(f"{verdict.case.split('/')[0]}/provenance", found)
            groups.setdefault(found.code, (found, []))[1].append(verdict.case)
    return sorted(groups.values(), key=lambda pair: (pair[0].vague, -len(pair[1])))


__all__ = ["Diagnosis", "diagnose", "summary"]
