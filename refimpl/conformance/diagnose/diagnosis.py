"""A diagnosis, and the factor by which numbers are off."""

from dataclasses import dataclass

import numpy as np

from refimpl.conformance.case import Rows, numbers_of, with_numbers
from refimpl.conformance.compare import differences
from refimpl.conformance.rules.aggregate import Expected


@dataclass(frozen=True)
class Diagnosis:
    """code: the bug's short name.  words: what is wrong.  evidence: what shows it.  vague: it says only where."""

    code: str
    words: str
    evidence: str = ""
    vague: bool = False


def factor_of(pairs) -> float | None:
    """Return k if every found is k times what is expected, k neither 0 nor 1. pairs: (found, Expected). Local."""
    factors = []
    for found, want in pairs:
        if isinstance(found, Rows) and not np.array_equal(found.ids, want.value.ids):
            return None
        x, y = flat(found), flat(want.value)
        factors.append(float(x @ y / (y @ y)) if y.any() else 0.0)
        good = np.isfinite(factors[-1]) and abs(factors[-1] - factors[0]) <= 1e-3 * abs(factors[0])
        if not good or not fits(found, want, with_numbers(want.value, lambda z: z * factors[-1]), 1e-6):
            return None
    middle = float(np.median(factors)) if factors else 0.0
    return None if middle == 0.0 or abs(middle - 1) < 1e-3 else middle


def fits(found, wanted: Expected, value, relative: float = 0.0) -> bool:
    """Return whether numbers are a prediction within the expectation's tolerance. Local.

    value: array or Rows.  relative: of each predicted number that much is tolerated too.
    """
    tolerance = float(np.max(wanted.tolerance, initial=0.0)) + relative * np.abs(numbers_of(value))
    return not differences(found, Expected(value, tolerance, wanted.dtype))[2].any()


def flat(part) -> np.ndarray:
    """Return the numbers of an array or Rows as one float64 vector. Local."""
    return np.ravel(numbers_of(part)).astype(np.float64)
