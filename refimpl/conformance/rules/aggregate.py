"""What aggregation should give: sums and averages of every rank's contributions, as the manifest means them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from refimpl.conformance.case import Part, Rows
from refimpl.conformance.rules.bounds import bound, exact_sum
from refimpl.conformance.semantics import Semantics


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


def aggregate(parts: list[Part], semantics: Semantics, dtype: str, exact: bool) -> Expected:
    """Return the aggregate of one variable. parts[r]: rank r's.  exact: their sums have no rounding errors. Local."""
    if isinstance(parts[0], Rows):
        return _aggregate_rows(parts, semantics, dtype, exact)
    return aggregate_dense(parts, len(parts) if semantics.dense == "average" else 1, semantics, dtype, exact)


def aggregate_dense(arrays, divisor: int, semantics: Semantics, dtype: str, exact: bool) -> Expected:
    """Return (sum of arrays) / divisor. Local."""
    addends = np.stack([np.asarray(a, np.float64) for a in arrays])
    total = addends.sum(axis=0) if exact and np.isfinite(addends).all() else exact_sum(addends)
    tolerance = _tolerance(len(arrays), np.abs(addends).sum(axis=0), divisor, dtype, exact)
    canonical = None
    if semantics.order == "tree" and dtype != "float16":  # what halves are added in is everyone's own choice
        scalar = np.dtype(dtype).type(divisor)
        early = semantics.divide == "before"
        with np.errstate(invalid="ignore", over="ignore"):
            summed = tree_sum([a / scalar if early else a for a in arrays], np.add)
            canonical = np.asarray(summed if early else summed / scalar)
    return Expected(total / divisor, _where_finite(tolerance, total), dtype, canonical)


def _aggregate_rows(parts, semantics, dtype, exact) -> Expected:
    parts = [once(part) if semantics.duplicates == "last" else part for part in parts]
    ids = np.concatenate([p.ids for p in parts]).astype(np.int64)
    rows = np.concatenate([np.asarray(p.rows, np.float64) for p in parts])
    unique, place = np.unique(ids, return_inverse=True)
    occurrences = np.bincount(place, minlength=len(unique))
    total, magnitudes = (_sums(x, place, len(unique), exact) for x in (rows, np.abs(rows)))
    divisor = row_divisor(parts, unique, occurrences, semantics.sparse)[:, None]
    tolerance = _tolerance(occurrences[:, None], magnitudes, divisor, dtype, exact)
    canonical = _tree_rows(parts, unique, divisor, semantics.divide, dtype) if semantics.order == "tree" else None
    return Expected(Rows(unique, total / divisor), _where_finite(tolerance, total), dtype, canonical)


def row_divisor(parts, unique, occurrences, rule) -> np.ndarray:
    """Return what each row's sum is divided by: (k,) int64. Local."""
    if rule == "per-occurrence":
        return occurrences
    if rule == "per-row-count":
        return sum(np.isin(unique, p.ids).astype(np.int64) for p in parts)
    return np.full(len(unique), len(parts) if rule == "average" else 1)


def once(part: Rows) -> Rows:
    """Return the last occurrence of each id. Local."""
    ids, last = np.unique(part.ids[::-1], return_index=True)
    return Rows(ids, part.rows[::-1][last])


def _sums(rows, place, count, exact):
    if exact and np.isfinite(rows).all():
        total = np.zeros((count, *rows.shape[1:]))
        np.add.at(total, place, rows)
        return total
    return np.array([exact_sum(rows[place == k]) for k in range(count)]).reshape(count, *rows.shape[1:])


def _tolerance(addends, magnitudes, divisor, dtype, exact):
    """Zero where neither adding nor dividing rounds: exact inputs, and a divisor that is a power of two."""
    divisor = np.asarray(divisor)
    rounding = bound(np.asarray(addends) + 2, magnitudes / divisor, dtype)  # a reciprocal, its product, and our own
    free = exact & ((divisor & (divisor - 1)) == 0)
    return np.where(free, 0.0, rounding) * np.ones_like(magnitudes)


def _where_finite(tolerance, total):
    return np.where(np.isfinite(total), np.nan_to_num(tolerance, nan=0.0, posinf=0.0), 0.0)


def tree_sum(values, add):
    """The sum by the balanced tree: cut after the largest power of two of leaves that leaves a rest. Local."""
    if len(values) == 1:
        return values[0]
    half = 1 << (len(values) - 1).bit_length() - 1
    return add(tree_sum(values[:half], add), tree_sum(values[half:], add))


def _tree_rows(parts, unique, divisor, divide, dtype) -> Rows:
    """Rows absent from a leaf add nothing; within a leaf rows are added in order of occurrence."""
    scalars = {int(k): np.dtype(dtype).type(int(d)) for k, d in zip(unique, divisor[:, 0])}

    def leaf(part):
        found: dict[int, np.ndarray] = {}
        for k, row in zip(part.ids.tolist(), part.rows):
            row = row / scalars[k] if divide == "before" else row
            found[k] = found[k] + row if k in found else row
        return found

    def add(left, right):
        return {k: left[k] + right[k] if k in left and k in right else left.get(k, right.get(k))
                for k in {*left, *right}}

    with np.errstate(invalid="ignore", over="ignore"):
        total = tree_sum([leaf(p) for p in parts], add)
        rows = [total[k] if divide == "before" else total[k] / scalars[k] for k in unique.tolist()]
    return Rows(unique, np.array(rows, dtype).reshape(len(unique), parts[0].rows.shape[1]))
