"""The expected number, its tolerance, and distances in units of the last place.

|computed - exact| <= gamma_h * sum |x|,   gamma_h = h u / (1 - h u),   u = half an ULP of 1
for additions in any order in which each number passes through at most h of them (Higham 2002, section 4.2).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Expected:
    """The expected value of one variable, and how it is compared.

    value: array, or Rows with rising ids; float64, the true value rounded once.  tolerance: largest distance of each
    element.  canonical: the value in the variable's dtype, if its bits are compared; None: they are not.
    """

    value: Any
    tolerance: np.ndarray
    dtype: str
    canonical: Any = None

    @property
    def comparison(self) -> str:
        """"bits", "exact" (tolerance zero) or "bound"."""
        return "bits" if self.canonical is not None else "bound" if np.any(self.tolerance) else "exact"


def gamma(h, dtype) -> np.ndarray:
    """Return gamma_h. h: number or array. Local."""
    unit = np.finfo(dtype).eps / 2
    return h * unit / (1 - h * unit)


def bound(h, magnitudes, dtype) -> np.ndarray:
    """Return gamma_h * magnitudes + h least denormals, because errors of denormal numbers are absolute. Local."""
    return gamma(h, dtype) * magnitudes + h * float(np.finfo(dtype).smallest_subnormal)


def of_updates(updates: int, travel, dtype) -> np.ndarray:
    """Return the tolerance of a value after n updates: 16 (n + 1) eps T, see docs/conformance.md. Local.

    travel: T, the absolute initial value plus the absolute changes of all updates.
    """
    return 16 * (updates + 1) * float(np.finfo(dtype).eps) * travel


def finite(tolerance) -> np.ndarray:
    """Return a tolerance, with 0 instead of infinity and NaN, which would allow everything. Local."""
    return np.where(np.isfinite(tolerance), tolerance, 0.0)


def exact_sum(addends) -> np.ndarray:
    """Return the sum over axis 0, rounded once to float64; inf and NaN as IEEE adds them. Local."""
    addends = np.asarray(addends, np.float64)
    with np.errstate(invalid="ignore"):
        plain = addends.sum(axis=0)
    flat = addends.reshape(len(addends), -1)
    columns = zip(flat.T.tolist(), plain.ravel().tolist())
    return np.array([math.fsum(c) if math.isfinite(p) else p for c, p in columns]).reshape(addends.shape[1:])


def ulps(found, wanted, dtype) -> np.ndarray:
    """Return |found - wanted| in units of the last place of ``wanted`` rounded to ``dtype``. Local.

    Two numbers that are not finite are 0 apart if they are alike, else infinitely far.
    """
    found, wanted = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        unit = np.spacing(np.abs(wanted.astype(dtype))).astype(np.float64)
        apart = np.abs(found - wanted) / unit
    return np.where(alike(found, wanted), 0.0, np.where(np.isfinite(found) & np.isfinite(wanted), apart, np.inf))


def alike(found, wanted) -> np.ndarray:
    """Return where two arrays have the same value: NaN is like NaN, -0.0 like 0.0. Local."""
    return (found == wanted) | (np.isnan(found) & np.isnan(wanted))
