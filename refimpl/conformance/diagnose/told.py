"""The diagnosis of a failed case: a deviation that was found, an error, or an answer of a wrong form."""

from dataclasses import dataclass

import numpy as np

from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.diagnose.search import ALIKE, Explanation
from refimpl.conformance.space.aggregation import factor_of
from refimpl.conformance.words import names_in_words, ranks_in_words


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong. code: its short name.  words: a sentence.  evidence: the reason.  vague: says only where it is.

    shown_by: (case, step, variable, rank or None) of the smallest case that shows a vague diagnosis; () if none does.
    """

    code: str
    words: str
    evidence: str = ""
    vague: bool = False
    shown_by: tuple = ()


def told(fit: Explanation) -> Diagnosis:
    """Return an explanation as a diagnosis. Local."""
    code = " and ".join(d.code for d in fit.deviations)
    words = ". Also, ".join(_in_scope(d.words, d.scope.words) for d in fit.deviations)
    wrong = [one for answers in fit.explained for one in answers.wrong]
    names = names_in_words(sorted({one.place.variable.name for one in wrong}))
    factors = [factor_of(one.value, one.wanted) for one in wrong if np.isfinite(numbers_of(one.value)).all()]
    alike = factors and None not in factors and np.ptp(factors) <= 1e-3 * abs(factors[0])
    shown = "this explains every wrong number, on every rank and in every step"
    if alike:
        rules = {value for d in fit.deviations for value in d.rules.values()}
        shown = (f"every number is {np.median(factors):g} times the expected one"
                 + (": not averaged" if rules == {"sum"} else ""))
    other = [] if any(d.rules for d in fit.deviations) else [
        f"{d.code}: {d.words}" for (d, *_) in fit.alike if d.code not in code and code not in d.code][:ALIKE]
    unsure = f"; these cases cannot tell it from {' or from '.join(other)}" if other else ""
    return Diagnosis(code, _in_scope(_in_scope(words, fit.scope.words), fit.when), f"{names}: {shown}{unsure}")


def _in_scope(words: str, scope: str) -> str:
    return f"{words}, {scope}" if scope else words


def of_error(evidence, verdict):
    """Return the diagnosis if a rank raised or never came back; None otherwise. It names special inputs. Local."""
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
    shown_by = (evidence.case.name, 0, next(iter(evidence.wanted[0])), first[0]) if evidence.wanted else ()
    return Diagnosis("error", f"{ranks_in_words(first)} ended with an error", verdict.why, True, shown_by)


def of_property(evidence, verdict):
    """Return the diagnosis of a property that fails, or of a wrong form; None if there is neither. Local."""
    for finding in verdict.findings:
        if not finding.ok and finding.comparison == "property":
            return Diagnosis(finding.code or "wrong-form", finding.words, vague=not finding.code)
    return None
