"""A deviation that was found, in words, with what shows it."""

import numpy as np

from refimpl.conformance.case import numbers_of
from refimpl.conformance.diagnose.diagnosis import Diagnosis, factor_of
from refimpl.conformance.diagnose.search import ALIKE, Explanation
from refimpl.conformance.words import names_in_words


def told(fit: Explanation) -> Diagnosis:
    """Return the diagnosis that a fit is. Local."""
    code = " and ".join(d.code for d in fit.deviations)
    words = "; ".join(_in_scope(d.words, d.scope.words) for d in fit.deviations)
    wrong = [one for answers in fit.explained for one in answers.wrong]
    names = names_in_words(sorted({one.place.variable.name for one in wrong}))
    factor = factor_of([(one.value, one.wanted) for one in wrong if np.isfinite(numbers_of(one.value)).all()])
    shown = "this explains every wrong number, on every rank and in every step"
    if factor is not None:
        rules = {value for d in fit.deviations for value in d.rules.values()}
        shown = f"every number is exactly {factor:g} x ours{': not averaged' if rules == {'sum'} else ''}"
    other = [] if any(d.rules for d in fit.deviations) else [
        f"{d.code}: {d.words}" for (d, *_) in fit.alike if d.code not in code and code not in d.code][:ALIKE]
    unsure = f"; these cases cannot tell it from {' or from '.join(other)}" if other else ""
    return Diagnosis(code, _in_scope(_in_scope(words, fit.scope.words), fit.when), f"{names}: {shown}{unsure}")


def _in_scope(words: str, scope: str) -> str:
    return f"{words}, {scope}" if scope else words
