"""What one aggregation gives, decision by decision: who contributes what, how it is added, divided, handed out.

contribution   one rank's gradient of a variable, as it enters the sum
duplicates     how rows that share an id on one rank meet: add, or another of COMBINED
parts          the contributions that meet in a sum
members        the ranks whose contributions are in the sum that a rank gets
combined       how ranks' contributions meet: add, or another of COMBINED
divisor        what the sum is divided by: a number, or one for each row
delivered      what a rank gets of the result
"""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import Case, Rows, numbers_of, with_numbers
from refimpl.conformance.rules.aggregate import Expected, once, row_divisor
from refimpl.conformance.rules.bounds import bound, exact_sum
from refimpl.conformance.space.deviation import Impossible, Machine, Place

COMBINED = {"add": np.add, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply}
NEUTRAL = {np.add: 0.0, np.maximum: -np.inf, np.minimum: np.inf, np.multiply: 1.0}


class Aggregation(Machine):
    """The answers to a case of stage aggregate. Raises Impossible where a deviation has nothing to deviate in."""

    def __init__(self, case: Case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        self.group = list(case.settings.get("group", range(case.ranks)))

    @property
    def meeting(self) -> str:
        """How rows of one contribution that share an id meet."""
        return self.semantics.duplicates

    @property
    def steps(self) -> int:
        """How many aggregations there are."""
        return len(self.case.steps)

    def delivered(self, place: Place) -> Expected:
        """Return what a rank gets, or (rank None) what all owners have together. Local."""
        return self.decide("delivered", self.total(place), place)

    answer = delivered

    def total(self, place: Place) -> Expected:
        """Return the sum of the members' contributions, divided. Local."""
        ranks = self.decide("members", list(self.group), place)
        parts = [self.contribution(replace(place, rank=r)) for r in ranks]
        return self.added(self.decide("parts", parts, place), place)

    def contribution(self, place: Place):
        """Return what a rank puts into the sum. Local."""
        return self.decide("contribution", self.given(place), place)

    def given(self, place: Place):
        """Return a rank's gradient: of a variable that is read at several places the sum, or all rows. Local."""
        part = self.case.steps[place.step][place.rank][place.variable.name]
        if isinstance(part, list):
            part = joined(self.decide("uses", part, place))
        return part

    def order(self, place: Place) -> list[str]:
        """Return the variables' names in the order in which a rank produced them. Local."""
        return list(self.case.steps[place.step][place.rank])

    def added(self, parts: list, place: Place) -> Expected:
        """Return the sum of contributions, divided. Local. Raises Impossible where they do not fit each other."""
        if not parts or len({(type(p), numbers_of(p).shape[1 if isinstance(p, Rows) else 0:]) for p in parts}) > 1:
            raise Impossible
        if any(isinstance(p, Rows) and len(p.ids) != len(p.rows) for p in parts):
            raise Impossible
        return (self._rows if isinstance(parts[0], Rows) else self._dense)(parts, place)

    def _dense(self, arrays, place):
        average = self.semantics.dense == "average"
        divisor = self.decide("divisor", len(self.group) if average else 1, place)
        addends = np.stack([np.asarray(a, np.float64) for a in arrays])
        how = self.decide("combined", "add", place)
        total = exact_sum(addends) if how == "add" else COMBINED[how].reduce(addends)
        return _wanted(total, np.abs(addends).sum(axis=0), len(arrays), divisor, place)

    def _rows(self, parts, place):
        how = self.decide("duplicates", self.meeting, place)
        if how in ("last", "first"):  # the others do not even count
            parts = [_once(p, how) for p in parts]
        unique, at = np.unique(np.concatenate([p.ids for p in parts]).astype(np.int64), return_inverse=True)
        occurrences, rule = np.bincount(at, minlength=len(unique)), self.semantics.sparse
        right = (row_divisor(parts, unique, occurrences, rule) if rule.startswith("per-") else
                 np.full(len(unique), len(self.group) if rule == "average" else 1))
        divisor = np.asarray(self.decide("divisor", right, place), np.float64)
        combine = COMBINED[self.decide("combined", "add", place)]
        total, sizes = (np.zeros((len(unique), *parts[0].rows.shape[1:])) for _ in range(2))
        total += NEUTRAL[combine]
        for part in (_once(p, how) for p in parts):
            where = np.searchsorted(unique, part.ids)
            combine.at(total, where, part.rows)
            np.add.at(sizes, where, np.abs(part.rows))
        return _wanted(Rows(unique, total), sizes, len(at), divisor[:, None] if divisor.ndim else divisor, place)


def joined(parts):
    """Return the gradients of one variable's uses as one gradient. Local."""
    if not parts:
        raise Impossible
    if isinstance(parts[0], Rows):
        return Rows(np.concatenate([p.ids for p in parts]), np.concatenate([p.rows for p in parts]))
    return sum(parts[1:], parts[0])


def _once(part: Rows, how: str) -> Rows:
    """Return a rank's rows, each id once. how: add, last, first, mean, or one of COMBINED."""
    if how in ("last", "first"):
        kept = once(part if how == "last" else Rows(part.ids[::-1], part.rows[::-1]))
        return Rows(kept.ids, kept.rows.astype(np.float64))
    unique, place = np.unique(part.ids, return_inverse=True)
    combine = COMBINED["add" if how == "mean" else how]
    rows = np.full((len(unique), *part.rows.shape[1:]), NEUTRAL[combine])
    combine.at(rows, place, part.rows.astype(np.float64))
    return Rows(unique, rows / np.bincount(place, minlength=len(unique))[:, None] if how == "mean" else rows)


def _overflowing(numbers, dtype):
    """Return numbers, infinite where they are more than a dtype holds."""
    return np.where(np.isinf(numbers.astype(dtype)), numbers.astype(dtype), numbers)


def _wanted(total, sizes, addends, divisor, place) -> Expected:
    """Return a prediction: within the bound of ``addends`` additions, and four roundings more."""
    dtype = place.variable.dtype
    with np.errstate(all="ignore"):
        tolerance = bound(addends + 4, sizes / np.abs(divisor), dtype)
        value = with_numbers(total, lambda x: _overflowing(x / divisor, dtype))
    finite = np.isfinite(numbers_of(value))
    return Expected(value, np.where(finite, np.nan_to_num(tolerance, posinf=0.0), 0.0) * np.ones_like(sizes), dtype)
