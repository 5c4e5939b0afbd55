"""Say what is wrong with the stage that differs first: hypotheses tried in turn, each a prediction of its numbers."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.compare import VariableResult, aligned
from refimpl.conformance.diagnose import Diagnosis, diagnose
from refimpl.conformance.observe import Evidence
from refimpl.conformance.traces.explain_gradients import (
    microbatches_moved, miscounted, one_factor, own_mean, rows_lost, stale_sum,
)
from refimpl.conformance.traces.explain_updates import explain_update
from refimpl.conformance.traces.sources import Differing
from refimpl.conformance.words import some


def explain(differing: Differing, finding: VariableResult) -> Diagnosis:
    """Return the first hypothesis that explains what differs; finding: its first. Local."""
    if finding.code:
        return Diagnosis(finding.code, finding.words)
    if not any(differing.failing()):
        return Diagnosis("order=any", "the sums are right, but added in another order than the tree that the manifest "
                         "declares", finding.words)
    where, hypotheses = STAGES[differing.verdict.stage]
    for hypothesis in hypotheses:
        if (found := hypothesis(differing)) is not None:
            return found
    return Diagnosis("unexplained", where, finding.words, vague=True)


def by_the_suite(differing: Differing):
    """The suite's own hypotheses: a step's aggregation is a case in which each microbatch is a rank."""
    case = differing.sources.as_case(differing.step)
    if case is None:
        return None
    wanted = {place[3]: want for place, (_, want) in differing.parts.items()}
    observed = {place[3]: [(None, found)] for place, (found, _) in differing.parts.items()}
    verdict = replace(differing.verdict, diagnosis=None)
    diagnose([(verdict, Evidence(case, differing.sources.semantics, [], [wanted], [observed]))])
    return None if verdict.diagnosis.vague else verdict.diagnosis


def swapped_rows(differing: Differing):
    """Rows of a variable are right, but in each other's places."""
    words = []
    for place, found, want, bad, ids in differing.failing():
        if bad.ndim != 2 or isinstance(found, Rows) and len(found.ids) != len(want.value.ids):
            return None
        rows = np.flatnonzero(bad.any(axis=1))
        value, expected = (np.asarray(aligned(x, ids), np.float64)[rows] for x in (found, want.value))
        tolerance = want.tolerance if ids is None else aligned(Rows(want.value.ids, want.tolerance), ids)
        fits = (np.abs(value[:, None] - expected[None]) <= tolerance[rows].max()).all(axis=2)
        if len(rows) < 2 or not fits.any(axis=1).all() or len(set(fits.argmax(axis=1).tolist())) < len(rows):
            return None
        numbers = rows if ids is None else ids[rows]
        pairs = [f"{number} has what belongs to {numbers[source]}"
                 for number, source in zip(numbers, fits.argmax(axis=1))]
        words.append(f"{place[3]}: row {some(pairs)}")
    return Diagnosis("rows-swapped", "rows are in each other's places", "; ".join(words)) if words else None


UPDATE = ("the update differs, though the gradient that it began from is right", (explain_update, swapped_rows))
STAGES = {
    "start": ("it does not start from the parameters that were given", (swapped_rows,)),
    "carried": ("the state that the model carries from step to step differs", (swapped_rows,)),
    "local": ("a microbatch's own gradient differs: the model or its inputs are wrong, before any aggregation",
              (one_factor, own_mean, microbatches_moved, swapped_rows)),
    "aggregated": ("the sum differs, though what was summed is right",
                   (stale_sum, miscounted, rows_lost, swapped_rows, by_the_suite, one_factor)),
    "metrics": ("the loss or the norm differs", (swapped_rows,)),
    "state": UPDATE,
    "parameters": UPDATE,
    "training": ("each step follows from the one before, but the whole training ends elsewhere", (swapped_rows,)),
}
"""Stage -> what is said where nothing explains what differs, and the hypotheses that are tried in turn."""
