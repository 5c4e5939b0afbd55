"""What is said where there are no numbers: errors, wrong forms, what a check found."""

from refimpl.conformance.case import Rows
from refimpl.conformance.diagnose.diagnosis import Diagnosis
from refimpl.conformance.words import ranks_in_words


def of_error(evidence, verdict):
    """A rank raised, or never came back. Where the inputs are special, say so."""
    errors = {r: a.error for r, a in enumerate(evidence.answers) if a.error}
    if not errors:
        return None
    empty = sorted({r for ranks in evidence.case.steps for r, parts in enumerate(ranks)
                    for p in parts.values() if isinstance(p, Rows) and not len(p.ids)})
    if evidence.case.name.startswith("rows/empty"):
        return Diagnosis("empty-row-gradient", f"a row gradient without rows, here of {ranks_in_words(empty)}, ends "
                         "the step for all", verdict.why)
    if "absent" in evidence.case.needs:
        return Diagnosis("absent-gradient", "a variable of which one rank has no gradient ends the step for all",
                         verdict.why)
    first = [r for r in errors if not errors[r].startswith(("LeftAlone", "never"))] or list(errors)
    return Diagnosis("error", f"{ranks_in_words(first)} ended with an error", verdict.why, vague=True)


def of_property(evidence, verdict):
    """A check of all answers together knows what it found; answers of a wrong form say so."""
    for finding in verdict.findings:
        if not finding.ok and finding.comparison == "property":
            return Diagnosis(finding.code or "wrong-form", finding.words, vague=not finding.code)
    return None
