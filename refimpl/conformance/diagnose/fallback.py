"""What is said where there are no numbers: errors, wrong forms, what a check found; and a common factor."""

from refimpl.conformance.case import Rows
from refimpl.conformance.diagnose.diagnosis import Diagnosis, factor_of
from refimpl.conformance.words import names_in_words, ranks_in_words


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


def common_factor(failed, count: int, of_what: str) -> Diagnosis | None:
    """Return the diagnosis if all that failed is one factor times ours. failed: (variable, found, Wanted). Local.

    count, of_what: of the ranks, or microbatches, that gradients are summed over.
    """
    factor = factor_of([(found, want) for _, found, want in failed])
    if factor is None:
        return None
    for times, code, words in (
            (count, "multiplied-by-n", f"{count} x ours: not averaged, or multiplied by the number of {of_what}"),
            (1 / count, "divided-again", f"1/{count} of ours: divided by the number of {of_what} once more"),
            (factor, "scaled", f"{factor:.6g} x ours")):
        if abs(factor / times - 1) < 1e-4:
            names = names_in_words(sorted({name for name, _, _ in failed}))
            return Diagnosis(code, f"all numbers of {names} are {words}", f"the factor is {factor:.6g}",
                             vague=code == "scaled")
    return None
