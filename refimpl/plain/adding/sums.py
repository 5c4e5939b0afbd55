"""Sums of the gradients of several ranks, with one method for each decision: the divisor, the order, repeated rows.

    arrays    g    = sum of g_r / divisor            rows    g[k] = sum of g_r[k] / divisor[k]     over the ranks r

Correct frameworks decide differently. ``semantics`` says how one framework decides. It has the fields of the
*manifest*, with which a framework tells the conformance suite what it does (docs/conformance.md). The suite's reference
implementation uses this class in the dtype of the gradients. The suite computes its expected values with it in float64.
"""

import math

import numpy as np

from refimpl.plain.adding.rows import Rows, aggregate_rows, last_of, merge_occurrences, merge_rows
from refimpl.plain.adding.tree import add_up


class Sums:
    """Adds up the gradients of ``size`` ranks. turn: the rank with which sums begin, unless their order is a tree."""

    def __init__(self, semantics, size, turn=0):
        self.semantics, self.size, self.turn = semantics, size, turn

    def mean(self, arrays, divisor=None):
        """Return the average of the arrays, or their sum if ``semantics`` says so. divisor: None: their number."""
        if self.semantics.dense != "average":
            divisor = 1
        elif divisor is None:
            divisor = len(arrays)
        wide = "float32" if arrays[0].dtype == np.float16 else arrays[0].dtype  # in float16 a sum may overflow
        with np.errstate(invalid="ignore", over="ignore"):
            if self.semantics.divide == "before":
                return self.fold([self.over(a.astype(wide), divisor) for a in arrays], np.add).astype(arrays[0].dtype)
            return self.over(self.fold([a.astype(wide) for a in arrays], np.add), divisor).astype(arrays[0].dtype)

    def over(self, array, divisor):
        """Return array / divisor. divisor: one number, or one for each row."""
        return array / array.dtype.type(divisor)

    def fold(self, values, add):
        """Return the sum of the values: by a tree, or one after the other, beginning with number ``turn``."""
        if self.semantics.order == "tree":
            return add_up(0, len(values), {(i, i + 1): value for i, value in enumerate(values)}, add)
        first = self.turn % len(values)
        total, *rest = values[first:] + values[:first]
        for value in rest:
            total = add(total, value)
        return total

    def merge(self, parts):
        """Return the sum or the average of row gradients, as Rows. parts[r]: (ids, rows) of rank r."""
        ids = np.unique(np.concatenate([own for own, _ in parts]))
        divisors = self.divisors(parts, ids)
        early = self.semantics.divide == "before"  # divide before the sum, not after it

        def divided(own, rows):
            return Rows(own, self.over(rows, divisors[np.searchsorted(ids, own)][:, None]))

        with np.errstate(invalid="ignore", over="ignore"):
            leaves = [aggregate_rows(Rows, *(divided(*part) if early else part)) for part in parts]
            total = self.fold(leaves, merge_rows)
            return total if early else divided(*total)

    def leaf(self, ids, rows):
        """Return the rows that one rank contributes. If an id occurs twice, both rows count, or only the last."""
        return Rows(ids, rows) if self.semantics.duplicates == "add" else last_of(ids, rows)

    def divisors(self, parts, ids):
        """Return the divisor of each row: (k,) int64. ids: (k,), the sorted ids of all parts.

        "average": the number of ranks.  "per-row-count": the number of ranks that pushed the row.
        "per-occurrence": how often they pushed it.  Any other rule: 1.
        """
        rule = self.semantics.sparse
        if rule.startswith("per-"):
            pushed = np.concatenate([own if rule == "per-occurrence" else np.unique(own) for own, _ in parts])
            return np.bincount(np.searchsorted(ids, pushed), minlength=len(ids))
        return np.full(len(ids), self.size if rule == "average" else 1)

    def apart(self, parts):
        """Return the contributions of the ranks, divided. Arrays are added up (``mean``), and rows are not.

        The rows of all ranks come one after the other, so an id may come several times.
        """
        if not isinstance(parts[0], tuple):
            return self.mean(parts)
        ids, rows = (np.concatenate(pieces) for pieces in zip(*parts))
        unique, place = np.unique(ids, return_inverse=True)
        return Rows(ids, self.over(rows, self.divisors(parts, unique)[place][:, None]))

    def weights(self, counts):
        """Return each rank's factor for its loss, which is a sum over its examples. counts: (ranks,) examples."""
        ranks = len(counts)
        factors = {"global-mean": np.full(ranks, 1.0 / counts.sum()), "sum": np.ones(ranks),
                   "mean-of-means": 1.0 / (np.maximum(1, counts) * ranks)}  # a rank without examples has the sum 0
        return factors[self.semantics.loss]


def norm_of(gradients, semantics):
    """Return the norm. gradients: {name: array or (ids, rows)}.

    semantics.clip_norm: if it begins with "dense", rows do not count. With "occurrences" each row counts by itself;
    otherwise rows with the same id are first added up.
    """
    squares = []
    for g in gradients.values():
        if isinstance(g, tuple):
            if semantics.clip_norm.startswith("dense"):
                continue
            g = g[1] if semantics.clip_norm == "occurrences" else merge_occurrences(Rows(*g)).rows
        squares += (np.asarray(g, np.float64) ** 2).ravel().tolist()
    return math.sqrt(math.fsum(squares))
