"""Say what is wrong with the first wrong stage: a deviation, or else the place in words."""

import re
from dataclasses import replace

from refimpl.conformance.checks import VariableResult
from refimpl.conformance.compare import Verdict
from refimpl.conformance.diagnose import Diagnosis
from refimpl.conformance.diagnose.answers import Answers
from refimpl.conformance.diagnose.localise import localise
from refimpl.conformance.diagnose.search import Explanation, search
from refimpl.conformance.diagnose.told import told
from refimpl.conformance.traces.answers import UPDATE, TraceEvidence, case_of

STAGES = {
    "start": "it does not start from the parameters that were given",
    "carried": "the state that the model carries from step to step differs",
    "local": "a microbatch's own gradient differs: the model or its inputs are wrong, before any aggregation",
    "aggregated": "the sum differs, though what was summed is right",
    "metrics": "the loss or the norm differs",
    **dict.fromkeys(UPDATE, "the update differs, though the gradient that it began from is right"),
    "training": "each step follows from the one before, but the whole training ends elsewhere",
}
"""Stage -> words for a difference without an explanation."""


def explain(sources, wanted, gradients, verdict: Verdict, finding: VariableResult) -> Diagnosis:
    """Return the diagnosis of a trace: what explains the first wrong step, and most others. Local.

    wanted, gradients: see ``expect.expected``.  finding: the first wrong one of the verdict.
    """
    if finding.code:
        return Diagnosis(finding.code, finding.words)
    case = case_of(sources, wanted, gradients, verdict.stage, finding.step)
    evidence = TraceEvidence(case, finding.step)
    fits, left = search([evidence])
    if fits:
        return in_microbatches(told(_of_most_steps(fits[0], case)))
    found = in_microbatches(localise(left, [], {id(evidence): verdict}))
    where = STAGES[verdict.stage]
    return replace(found, code="unexplained", words=f"{where}: {found.words}") if found.vague else found


def _of_most_steps(fit: Explanation, case) -> Explanation:
    """Return the explanation of the first wrong step that also explains most other steps."""
    if not fit.alike:
        return fit
    answers = Answers(TraceEvidence(case, None))
    best = max((fit.deviations, *fit.alike), key=answers.steps_given)
    alike = [d for d in (fit.deviations, *fit.alike)
             if d is not best and answers.steps_given(d) == answers.steps_given(best)]
    return replace(fit, deviations=best, alike=alike)


def in_microbatches(found: Diagnosis) -> Diagnosis:
    """Return a diagnosis with the word microbatch instead of rank, and without a case that an adapter can run. Local.
    """
    def named(text):
        return re.sub(r"\brank(?=s? (\d|push))", "microbatch", text).replace("microbatchs", "microbatches")

    return replace(found, words=named(found.words), evidence=named(found.evidence), shown_by=())
