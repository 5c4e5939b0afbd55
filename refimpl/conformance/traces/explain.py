"""Say what is wrong with the stage that differs first: hypotheses tried in turn, each a prediction of its numbers."""

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.compare import Finding, Verdict, aligned
from refimpl.conformance.diagnose import Diagnosis, diagnose
from refimpl.conformance.observe import Evidence
from refimpl.conformance.traces.differing import Differing
from refimpl.conformance.traces.explain_gradients import AGGREGATED, LOCAL, common_factor
from refimpl.conformance.traces.explain_updates import explain_update
from refimpl.conformance.traces.sources import Sources

WHERE = {
    "start": "it does not start from the parameters that were given",
    "carried": "the state that the model carries from step to step differs",
    "local": "a microbatch's own gradient differs: what is wrong is in the model or its inputs, before any aggregation",
    "aggregated": "the sum differs, though what was summed is right",
    "metrics": "the loss or the norm differs",
    "state": "the update differs, though the gradient that it began from is right",
    "parameters": "the update differs, though the gradient that it began from is right",
    "training": "each step follows from the one before, but the whole training ends elsewhere",
}


def explain(sources: Sources, wanted, inputs, verdict: Verdict, finding: Finding) -> Diagnosis:
    """Return the first hypothesis that explains the stage of a verdict at the step of a finding. Local."""
    if finding.code:
        return Diagnosis(finding.code, finding.words)
    differing = Differing.of(sources, wanted, verdict.stage, finding.step)
    if not any(differing.failing()):
        return Diagnosis("order=any", "the sums are right, but added in another order than the tree that the manifest "
                         "declares", finding.words)
    with np.errstate(all="ignore"):
        for hypothesis in {"local": LOCAL, "aggregated": AGGREGATED}.get(verdict.stage, ()):
            if (found := hypothesis(differing)) is not None:
                return found
        if verdict.stage in ("state", "parameters"):
            found = explain_update(sources, wanted, inputs, finding.step)
            if found is not None:
                return found
        if (found := swapped_rows(differing)) is not None:
            return found
        if verdict.stage == "aggregated" and (found := _by_the_suite(sources, differing, verdict)) is not None:
            return found
        if verdict.stage == "aggregated" and (found := common_factor(differing)) is not None:
            return found
    return Diagnosis("unexplained", WHERE[verdict.stage], finding.words, vague=True)


def _by_the_suite(sources, differing, verdict):
    """Try the suite's own hypotheses: a step's aggregation is a case in which each microbatch is a rank."""
    case = sources.as_case(differing.step)
    if case is None:
        return None
    wanted = {place[3]: want for place, (_, want) in differing.parts.items()}
    observed = {place[3]: [(None, found)] for place, (found, _) in differing.parts.items()}
    found = diagnose(Evidence(case, sources.semantics, [], [wanted], [observed]), verdict)
    return None if found.code == "unexplained" else found


def swapped_rows(differing):
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
        pairs = [f"{numbers[at]} has what belongs to {numbers[source]}"
                 for at, source in enumerate(fits.argmax(axis=1))]
        words.append(f"{place[3]}: row {', '.join(pairs[:3])}{' …' if len(pairs) > 3 else ''}")
    return Diagnosis("rows-swapped", "rows are in each other's places", "; ".join(words)) if words else None
