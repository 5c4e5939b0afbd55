"""The row gradient of pooled look-ups, with one method for each decision.

A *bag* is a group of row numbers. A *pooled look-up* returns one output for each bag: the sum or the mean of its rows.

    sum     g[k] = sum of g_b              for each time that row k is in bag b; g_b: the gradient of the bag's output
    mean    g[k] = sum of g_b / count_b    count_b: the number of look-ups in bag b

The padding index stands for an empty place in a bag: it is not counted, and its row gets no gradient. The conformance
suite computes its expected values with this class.
"""

import numpy as np

from refimpl.plain.adding.rows import Rows


class Bags:
    """pooling: sum or mean.  padding: the padding index, or None."""

    def __init__(self, pooling, padding=None):
        self.pooling, self.padding = pooling, padding

    def rows(self, ids, offsets, gradients):
        """Return Rows, ids as they come, perhaps with repeats.

        ids: (n,) int64 of all bags, one bag after the other.  offsets: (bags,) int64, where each bag begins in ``ids``.
        gradients: (bags, d), of the bags' outputs.
        """
        bag, kept = self.bag_of(np.arange(len(ids)), offsets), self.kept(ids)
        counts = np.bincount(bag[self.counted(ids)], minlength=len(offsets))
        divisors = self.divisors(np.maximum(1, counts)).astype(gradients.dtype)
        return Rows(ids[kept], (gradients / divisors[:, None])[bag[kept]])

    def bag_of(self, places, offsets):
        """Return the number of the bag in which each place of ``ids`` lies. A bag may be empty."""
        return np.searchsorted(offsets, places, side="right") - 1

    def kept(self, ids):
        """Return which look-ups get a gradient: all but those of the padding index."""
        return np.full(len(ids), True) if self.padding is None else ids != self.padding

    def counted(self, ids):
        """Return which look-ups count in a mean."""
        return self.kept(ids)

    def divisors(self, counts):
        """Return by what each bag's gradient is divided. counts: of its look-ups, at least 1."""
        return counts if self.pooling == "mean" else np.ones_like(counts)
