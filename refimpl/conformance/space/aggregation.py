"""One aggregation, with a method for each decision: what ranks contribute, how it is added, divided and returned.

contribution   one rank's gradient of a variable, as it enters the sum
duplicates     what happens to rows with the same id on one rank: add, last, first or mean
parts          the contributions that are added
members        the ranks whose contributions are added for a rank
combined       how contributions are combined: np.add, or an object with its methods ``at`` and ``reduce``
divisor        the divisor of the sum: a number, or one for each row
delivered      the part of the result that a rank gets
"""

from dataclasses import replace

import numpy as np

from refimpl.conformance.bounds import Expected, bound, exact_sum, finite
from refimpl.conformance.case import Case, Rows, nothing_of, numbers_of, with_numbers
from refimpl.conformance.space import contributions, deliveries, sums
from refimpl.conformance.space.deviation import Deviation, Impossible, Machine, Place, concatenated
from refimpl.plain.adding.rows import last_of
from refimpl.plain.adding.sums import Sums

BY_CONTRIBUTOR = {"contribution", "uses", "accumulated", "loss scale", "micro-steps"}
"""Decisions of the rank that contributes. If one rank deviates, the answers of other ranks change, too."""
OF_SUMS = BY_CONTRIBUTOR | {"members", "parts", "combined", "duplicates", "divisor", "norm", "scale"}
"""Decisions that sums depend on. The last two count only if each rank clips its own gradient before the sum."""
BY_ROW = OF_SUMS - {"norm", "scale"} | {"delivered", "updates", "formula", "rate", "clock"}
"""Decisions that may be wrong for some rows alone."""


def factor_of(found, wanted: Expected) -> float | None:
    """Return k if all numbers are k times the expected ones, and k is neither 0 nor 1; else None. Local."""
    if isinstance(found, Rows) and not np.array_equal(found.ids, wanted.value.ids):
        return None
    x, y = (np.ravel(numbers_of(part)).astype(np.float64) for part in (found, wanted.value))
    k = float(x @ y / (y @ y)) if y.any() and np.isfinite(x).all() else 0.0
    tolerance = np.max(wanted.tolerance, initial=0.0) + 1e-6 * np.abs(k * y)
    return k if k and abs(k - 1) > 1e-3 and (np.abs(x - k * y) <= tolerance).all() else None


class Aggregation(Machine):
    """The answers to a case of stage aggregate. Raises Impossible if a deviation cannot be applied."""

    fields = "dense", "sparse", "duplicates", "order"
    meeting, bounded = "", True
    """meeting: ``duplicates``; "": as the manifest says.  bounded: whether sums need a tolerance."""

    @classmethod
    def alternatives(cls, cases):
        ranks = max(case.ranks for case in cases)
        return [*deliveries.deviations(ranks), *sums.deviations(ranks), *contributions.deviations(ranks)]

    @classmethod
    def fitted(cls, observed, machines):
        """Return sums that are multiplied by some number. Local."""
        factors = {float(f"{k:.5g}") for one in observed if (k := factor_of(one.value, one.wanted)) is not None}
        return [Deviation("scaled", f"sums are {k:g} x what they should be", {
            "divisor": lambda right, m, p, k=k: right / k}) for k in sorted(factors)]

    def __init__(self, case: Case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        self.group = list(case.settings.get("group", range(case.ranks)))
        self.plain = Sums(self.semantics, len(self.group))
        self.of_sums = tuple(d for d in deviations if d.rules or OF_SUMS & d.decisions.keys())

    def delivered(self, place: Place) -> Expected:
        """Return what a rank gets, or (rank None) what all owners have together. Local."""
        if place.shared is None and place.variable.sparse and any(d.scope.shared is not None for d in self.deviations):
            return self.of_all_rows(place)
        return self.decide("delivered", self.total(place), place)

    answer = delivered

    def of_all_rows(self, place: Place) -> Expected:
        """Return what a rank gets, if rows that several ranks push are decided apart. Local. Raises Impossible."""
        ids, ranks = self.pushed(place)
        found = []
        for several in (True, False):
            want = self.delivered(replace(place, shared=several))
            at = np.isin(want.value.ids, ids[ranks > 1]) == several
            if type(want) is not Expected or not np.array_equal(want.value.ids[at], ids[(ranks > 1) == several]):
                raise Impossible
            found.append((want.value.rows[at], np.broadcast_to(want.tolerance, want.value.rows.shape)[at]))
        order = np.argsort(np.concatenate([np.flatnonzero(ranks > 1), np.flatnonzero(ranks == 1)]))
        rows, tolerance = (np.concatenate(parts)[order] for parts in zip(*found))
        return replace(want, value=Rows(ids, rows), tolerance=tolerance)

    def pushed(self, place: Place):
        """Return (row numbers, how many ranks push each). Local. Raises Impossible for a dense variable."""
        if not place.variable.sparse or place.step is None:
            raise Impossible
        each = [np.unique(self.given(replace(place, rank=r)).ids) for r in self.group]
        return np.unique(np.concatenate(each), return_counts=True)

    def total(self, place: Place) -> Expected:
        """Return the sum of the members' contributions, divided. Local."""
        if self.base is None or self.inputs != self.base.inputs:
            return self.summed(place)
        key = self.of_sums, place if self.of_sums else replace(place, rank=None)
        if key not in self.base.memo:
            self.base.memo[key] = self.summed(place)
        return self.base.memo[key]

    def summed(self, place: Place) -> Expected:
        """Return what ``total`` returns, without looking it up. Local."""
        ranks = self.decide("members", list(self.group), place)
        parts = [self.contribution(replace(place, rank=r)) for r in ranks]
        return self.added(self.decide("parts", parts, place), place)

    def contribution(self, place: Place):
        """Return what a rank puts into the sum. Local."""
        return self.decide("contribution", self.given(place), place)

    def given(self, place: Place):
        """Return a rank's gradient. A variable that is read at several places has their sum, or all rows. Local."""
        part = self.case.steps[place.step][place.rank][place.variable.name]
        if part is None:
            part = nothing_of(place.variable)
        if isinstance(part, list):
            part = concatenated(self.decide("uses", part, place))
        return part

    def order(self, place: Place) -> list[str]:
        """Return the variables' names in the order in which a rank produced them. Local."""
        return list(self.case.steps[place.step][place.rank])

    def added(self, parts: list, place: Place) -> Expected:
        """Return the sum of contributions, divided. Local. Raises Impossible if they do not fit each other."""
        if not parts or len({(type(p), numbers_of(p).shape[1 if isinstance(p, Rows) else 0:]) for p in parts}) > 1:
            raise Impossible
        if any(isinstance(p, Rows) and len(p.ids) != len(p.rows) for p in parts):
            raise Impossible
        return (self._rows if isinstance(parts[0], Rows) else self._dense)(parts, place)

    @property
    def predicted(self) -> bool:
        """Whether numbers are those of a deviation, or of a training: they need not be exact, and may overflow."""
        return bool(self.deviations or self.meeting)

    def _dense(self, arrays, place) -> Expected:
        divisor = self.decide("divisor", self.plain.size if self.semantics.dense == "average" else 1, place)
        addends = np.stack([np.asarray(a, np.float64) for a in arrays])
        how = self.decide("combined", np.add, place)
        plain = (self.predicted or self.case.exact) and np.isfinite(addends).all()
        total = exact_sum(addends) if how is np.add and not plain else how.reduce(addends)
        bits = None if place.variable.dtype == "float16" else self.plain.mean  # each adds halves in what it likes
        return self._expected(total, lambda: np.abs(addends).sum(axis=0), len(arrays), divisor, bits and (
            lambda: bits(arrays)), place.variable.dtype)

    def _rows(self, parts, place) -> Expected:
        how = self.decide("duplicates", self.meeting or self.semantics.duplicates, place)
        if how == "last":  # the others do not even count
            parts = [last_of(*p) for p in parts]
        elif how == "first":
            parts = [last_of(p.ids[::-1], p.rows[::-1]) for p in parts]
        ids = np.concatenate([p.ids for p in parts]).astype(np.int64)
        unique, at = np.unique(ids, return_inverse=True)
        divisor = np.asarray(self.decide("divisor", self.plain.divisors(parts, unique), place))
        divisor = divisor[:, None] if divisor.ndim else divisor
        each, combine = parts, self.decide("combined", np.add, place)
        addends = len(at) if self.predicted else np.bincount(at, minlength=len(unique))[:, None]
        if self.predicted and (how == "mean" or combine is not np.add):
            each = [met(p, how == "mean") for p in parts]
            at = np.searchsorted(unique, np.concatenate([p.ids for p in each]))
        rows = np.concatenate([np.asarray(p.rows, np.float64) for p in each])
        plain = self.predicted or self.case.exact and np.isfinite(rows).all()
        total = _sums(rows, at, len(unique), plain, combine)
        return self._expected(Rows(unique, total), lambda: _sums(np.abs(rows), at, len(unique), plain), addends,
                              divisor, lambda: self.plain.merge(parts), place.variable.dtype)

    def _expected(self, total, sizes, addends, divisor, bits, dtype) -> Expected:
        """Return total / divisor. sizes(): sum of absolute values.  bits(): the canonical value; None: none."""
        with np.errstate(all="ignore"):
            value = with_numbers(total, lambda x: x / divisor)
            if self.predicted:
                value = with_numbers(value, lambda x: np.where(np.isinf(x.astype(dtype)), x.astype(dtype), x))
                if not self.bounded:
                    return Expected(value, np.zeros(()), dtype)
                tolerance = bound(addends + 4, sizes() / np.abs(divisor), dtype)
            else:  # none where neither adding nor dividing rounds: exact inputs, and a divisor that is a power of two
                free = self.case.exact & ((divisor & (divisor - 1)) == 0)
                rounding = bound(addends + 2, sizes() / divisor, dtype)  # a reciprocal, its product, and our own
                tolerance = np.where(free, 0.0, rounding)
            tolerance = np.where(np.isfinite(numbers_of(value)), finite(tolerance), 0.0)
            told = bits and self.semantics.order == "tree" and not self.predicted
            return Expected(value, tolerance, dtype, bits() if told else None)


def met(part: Rows, mean: bool) -> Rows:
    """Return a rank's rows, each id once: rows with the same id are added, or averaged. Local."""
    unique, place = np.unique(part.ids, return_inverse=True)
    rows = _sums(part.rows.astype(np.float64), place, len(unique), True)
    return Rows(unique, rows / np.bincount(place, minlength=len(unique))[:, None] if mean else rows)


def _sums(rows, place, count, plain, combine=np.add):
    """Return the combined rows of each place. plain: one after the other; otherwise their sum, rounded once."""
    if plain:
        total = np.full((count, *rows.shape[1:]), -np.inf if combine is np.maximum else 0.0)
        combine.at(total, place, rows)
        return total
    return np.array([exact_sum(rows[place == k]) for k in range(count)]).reshape(count, *rows.shape[1:])
