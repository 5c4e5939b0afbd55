"""Gradients of several ranks become one, decision by decision: what sums are divided by, and what of rows that repeat.

    arrays    g    = sum of g_r / divisor            rows    g[k] = sum of g_r[k] / divisor[k]     over the ranks r

Correct frameworks differ here. ``semantics`` says how one of them decides: the fields of the conformance suite's
manifest. In the gradients' dtype this is the suite's reference; in float64 it is a part of what the suite expects.
"""

import math

import numpy as np

from refimpl.plain.rows import Rows, aggregate_rows, last_of, merge_occurrences, merge_rows
from refimpl.plain.tree import add_up


class Sums:
    """How gradients of ``size`` ranks become one. turn: where sums begin, if they may be formed in any order."""

    def __init__(self, semantics, size, turn=0):
        self.semantics, self.size, self.turn = semantics, size, turn

    def mean(self, arrays, divisor=None):
        """Return the sum of the arrays, or their average. divisor: None: as many as there are."""
        divisor = (len(arrays) if divisor is None else divisor) if self.semantics.dense == "average" else 1
        wide = "float32" if arrays[0].dtype == np.float16 else arrays[0].dtype  # a sum of halves may overflow
        with np.errstate(invalid="ignore", over="ignore"):
            if self.semantics.divide == "before":
                return self.fold([self.over(a.astype(wide), divisor) for a in arrays], np.add).astype(arrays[0].dtype)
            return self.over(self.fold([a.astype(wide) for a in arrays], np.add), divisor).astype(arrays[0].dtype)

    def over(self, array, divisor):
        """Return array / divisor, a number or one for each row."""
        return array / array.dtype.type(divisor)

    def fold(self, values, add):
        """Add values up: as a balanced tree, or one after the other from any of them on."""
        if self.semantics.order == "tree":
            return add_up(0, len(values), {(i, i + 1): value for i, value in enumerate(values)}, add)
        first = self.turn % len(values)
        total, *rest = values[first:] + values[:first]
        for value in rest:
            total = add(total, value)
        return total

    def merge(self, parts):
        """Return Rows: the ranks' row gradients aggregated. parts[r]: (ids, rows) of rank r."""
        ids = np.unique(np.concatenate([own for own, _ in parts]))
        divisors, early = self.divisors(parts, ids), self.semantics.divide == "before"

        def divided(own, rows):
            return Rows(own, self.over(rows, divisors[np.searchsorted(ids, own)][:, None]))

        with np.errstate(invalid="ignore", over="ignore"):
            leaves = [aggregate_rows(Rows, *(divided(*part) if early else part)) for part in parts]
            total = self.fold(leaves, merge_rows)
            return total if early else divided(*total)

    def leaf(self, ids, rows):
        """Return one rank's rows, as they take part."""
        return Rows(ids, rows) if self.semantics.duplicates == "add" else last_of(ids, rows)

    def divisors(self, parts, ids):
        """Return what the sum of each of these rows is divided by: (k,) int64. ids: (k,), rising, of all parts."""
        rule = self.semantics.sparse
        if rule.startswith("per-"):
            pushed = np.concatenate([own if rule == "per-occurrence" else np.unique(own) for own, _ in parts])
            return np.bincount(np.searchsorted(ids, pushed), minlength=len(ids))
        return np.full(len(ids), self.size if rule == "average" else 1)

    def apart(self, parts):
        """Return the aggregate of all ranks' gradients of a variable, in which every occurrence of an id is apart."""
        if not isinstance(parts[0], tuple):
            return self.mean(parts)
        ids, rows = (np.concatenate(pieces) for pieces in zip(*parts))
        unique, place = np.unique(ids, return_inverse=True)
        return Rows(ids, self.over(rows, self.divisors(parts, unique)[place][:, None]))

    def weights(self, counts):
        """Return what each rank's sum over its examples is multiplied with, in the loss. counts: of examples, (N,)."""
        return {"global-mean": np.full(len(counts), 1.0 / counts.sum()), "sum": np.ones(len(counts)),
                "mean-of-means": 1.0 / (np.maximum(1, counts) * len(counts))}[self.semantics.loss]


def norm_of(gradients, semantics):
    """Return the norm of name -> array or (ids, rows): of those that count, rows that share an id added or apart."""
    squares = []
    for g in gradients.values():
        if isinstance(g, tuple):
            if semantics.clip_norm.startswith("dense"):
                continue
            g = g[1] if semantics.clip_norm == "occurrences" else merge_occurrences(Rows(*g)).rows
        squares += (np.asarray(g, np.float64) ** 2).ravel().tolist()
    return math.sqrt(math.fsum(squares))
