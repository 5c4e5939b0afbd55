"""What aggregation should give: sums and averages of every rank's contributions, as the manifest means them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refimpl.conformance.case import Part, Rows, numbers_of, with_numbers
from refimpl.conformance.rules.bounds import bound, exact_sum, finite
from refimpl.conformance.semantics import Semantics
from refimpl.plain.adding.rows import last_of
from refimpl.plain.adding.sums import Sums

COMBINED = {"add": np.add, "maximum": np.maximum}
NEUTRAL = {np.add: 0.0, np.maximum: -np.inf}


@dataclass(frozen=True)
class Expected:
    """What is expected of one variable, and how it is compared.

    value: array, or Rows with rising ids; float64, the true value rounded once.  tolerance: largest distance, per
    element.  canonical: the value in the variable's dtype whose very bits are expected, None: none are.
    """

    value: Any
    tolerance: np.ndarray
    dtype: str
    canonical: Any = None

    @property
    def comparison(self) -> str:
        """"bits", "exact" (tolerance zero) or "bound"."""
        return "bits" if self.canonical is not None else "bound" if np.any(self.tolerance) else "exact"


class Aggregate:
    """The aggregate of one variable. parts[r]: rank r's.  exact: their sums have no rounding errors.

    members: how many are averaged over, None: as many as there are parts.  decide(decision, right): what is decided of
    duplicates, divisor and combined, see ``space.aggregation``; None: as is right. What somebody decides is
    ``predicted``: its numbers need not be exact, and may overflow.  bounded: whether a tolerance is asked for.
    """

    def __init__(self, parts: list[Part], semantics: Semantics, dtype: str, exact: bool, members: int | None = None,
                 decide=None, bounded: bool = True):
        self.parts, self.semantics, self.dtype, self.exact = parts, semantics, dtype, exact
        self.sums, self.predicted, self.bounded = Sums(semantics, members or len(parts)), decide is not None, bounded
        self.decide = decide or (lambda decision, right: right)

    def expected(self) -> Expected:
        """Return it. Local."""
        return self._rows(self.parts) if isinstance(self.parts[0], Rows) else self._dense(self.parts)

    def _dense(self, arrays) -> Expected:
        divisor = self.decide("divisor", self.sums.size if self.semantics.dense == "average" else 1)
        addends = np.stack([np.asarray(a, np.float64) for a in arrays])
        how, plain = self.decide("combined", "add"), (self.predicted or self.exact) and np.isfinite(addends).all()
        total = exact_sum(addends) if how == "add" and not plain else COMBINED[how].reduce(addends)
        bits = None if self.dtype == "float16" else self.sums.mean  # what halves are added in is everyone's own choice
        return self._expected(total, lambda: np.abs(addends).sum(axis=0), len(arrays), divisor, bits, arrays)

    def _rows(self, parts) -> Expected:
        how = self.decide("duplicates", self.semantics.duplicates)
        if how in ("last", "first"):  # the others do not even count
            parts = [once(p, how) for p in parts]
        ids = np.concatenate([p.ids for p in parts]).astype(np.int64)
        unique, at = np.unique(ids, return_inverse=True)
        divisor = np.asarray(self.decide("divisor", self.sums.divisors(parts, unique)))
        divisor = divisor[:, None] if divisor.ndim else divisor
        each, combine = parts, self.decide("combined", "add")
        addends = len(at) if self.predicted else np.bincount(at, minlength=len(unique))[:, None]
        if self.predicted and not how == combine == "add":
            each = [met(p, how) for p in parts]
            at = np.searchsorted(unique, np.concatenate([p.ids for p in each]))
        rows = np.concatenate([np.asarray(p.rows, np.float64) for p in each])
        plain = self.predicted or self.exact and np.isfinite(rows).all()
        total = _sums(rows, at, len(unique), plain, COMBINED[combine])
        return self._expected(Rows(unique, total), lambda: _sums(np.abs(rows), at, len(unique), plain), addends,
                              divisor, self.sums.merge, parts)

    def _expected(self, total, sizes, addends, divisor, bits, parts) -> Expected:
        """Return total / divisor. sizes(): sum of the addends' sizes.  bits(parts): the canonical value, None: none."""
        with np.errstate(all="ignore"):
            value = with_numbers(total, lambda x: x / divisor)
            if self.predicted:
                value = with_numbers(value, lambda x: np.where(np.isinf(x.astype(self.dtype)), x.astype(self.dtype), x))
                if not self.bounded:
                    return Expected(value, np.zeros(()), self.dtype)
                tolerance = bound(addends + 4, sizes() / np.abs(divisor), self.dtype)
            else:  # none where neither adding nor dividing rounds: exact inputs, and a divisor that is a power of two
                free = self.exact & ((divisor & (divisor - 1)) == 0)
                rounding = bound(addends + 2, sizes() / divisor, self.dtype)  # a reciprocal, its product, and our own
                tolerance = np.where(free, 0.0, rounding)
            tolerance = np.where(np.isfinite(numbers_of(value)), finite(tolerance), 0.0)
            told = bits and self.semantics.order == "tree" and not self.predicted
            return Expected(value, tolerance, self.dtype, bits(parts) if told else None)


def once(part: Rows, which: str = "last") -> Rows:
    """Return the last occurrence of each id, or the first. Local."""
    return last_of(*part) if which == "last" else last_of(part.ids[::-1], part.rows[::-1])


def met(part: Rows, how: str) -> Rows:
    """Return a rank's rows, each id once. how: add, last, first, mean, or one of COMBINED. Local."""
    if how in ("last", "first"):
        return once(part, how)
    unique, place = np.unique(part.ids, return_inverse=True)
    combine = COMBINED["add" if how == "mean" else how]
    rows = np.full((len(unique), *part.rows.shape[1:]), NEUTRAL[combine])
    combine.at(rows, place, part.rows.astype(np.float64))
    return Rows(unique, rows / np.bincount(place, minlength=len(unique))[:, None] if how == "mean" else rows)


def _sums(rows, place, count, plain, combine=np.add):
    """Return the rows of each place combined. plain: one after the other; else their sum, rounded once."""
    if plain:
        total = np.full((count, *rows.shape[1:]), NEUTRAL[combine])
        combine.at(total, place, rows)
        return total
    return np.array([exact_sum(rows[place == k]) for k in range(count)]).reshape(count, *rows.shape[1:])
