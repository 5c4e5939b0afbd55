"""Blocks of pairs: in a round the ranks agree on many samples, and each computes all changes among them by itself.

So there are fewer rounds. All ranks know the errors of a block's samples and compute the same changes. Samples of the
last rounds stay in the block; without them twice as many changes are needed, because their gap often opens again.
"""

import numpy as np
from scipy.sparse import issparse

from kernels.svm.block import change_block, find_newest, keep_related, mirror, relate
from models.svm.solver import BLOCK_ROWS, Solver

STEPS = 100
"""The most changes in a round, for each sample of a block."""
CLOSE = 0.1
"""A round ends when the gap among the block's samples is this part of the gap that it began with."""

NARROW = 64
"""With at most this many features, each of several ranks computes K of a block's new samples: messages are slower."""


class BlockSolver(Solver):
    """A ``Solver`` that changes ``options.block`` samples at each end of the gap in a round, and earlier ones.

    An eliminated sample stays in the block until newer ones replace it; the reconstruction corrects its error.
    between: K of each two samples of the last round, by number.  where: (n,), indices of these samples in it, or -1.
    """

    def __init__(self, rows, labels, kernel, options, ranks=None):
        super().__init__(rows, labels, kernel, options, ranks)
        self.most = min(BLOCK_ROWS * options.block, len(labels))
        self.where, self.between = np.full(len(labels), -1), np.empty((0, 0))
        self.seen = np.full(len(labels), False)  # for ``find_newest``
        self.memory = np.empty(self.most**2), np.empty(self.most**2)  # for ``between`` of this round and the last one
        self.narrow = self.ranks.planned > 1 and not issparse(rows) and rows.shape[1] <= NARROW
        self.ahead = 0  # a block is large enough for one pass over the features

    def _descend(self):
        kept, errors = np.empty(0, np.int64), np.empty(0)  # the block's samples, the newest first
        while True:
            (least, first), (most, last) = self._nearest(self.options.block)
            up, low = np.min(least, initial=np.inf), -np.min(most, initial=np.inf)  # perhaps none can grow, or shrink
            if self._closed(up, low):
                return
            self._eliminate(up, low)
            kept = np.concatenate([first[least < low], last[-most > up], kept])
            newest = find_newest(kept, self.most, self.seen)
            errors = np.concatenate([least[least < low], -most[-most > up], errors])[newest]
            kept = kept[newest]
            order = np.argsort(kept)
            members = kept[order]
            self._meet(members)
            errors[order], weights, steps = self._inside(members, errors[order], low - up)
            self._change(members, weights)
            self.iterations += steps

    def _meet(self, members):
        """Put the members' rows into the cache, and get K between all members. Collective."""
        before, count = self.where[members], len(members)
        known, fresh = (before >= 0).nonzero()[0], (before < 0).nonzero()[0]
        self.memory = self.memory[::-1]
        between = self.memory[0][:count**2].reshape(count, count)
        keep_related(self.between, before[known], between, known)
        kept = self.cache.slots[members] >= 0
        missing = self.cache.touch(members)
        if self.narrow:
            if len(missing):
                self.cache.put(missing, self.traffic.features(missing, self.samples.vectors))
            self._compute(members, fresh, between)
        elif len(fresh):
            self._hear(members, fresh, missing, kept, between)
        self.where[:] = -1
        self.where[members], self.between = np.arange(count), between

    def _hear(self, members, fresh, missing, kept, between):
        """Get K of new members from their owners, with their features if their rows are in no cache.

        An owner sends K with all members whose rows are in the caches. Every rank computes the others. Collective.
        """
        told, absent = kept.nonzero()[0], (~kept).nonzero()[0]
        columns, vectors = self.traffic.columns_and_features(
            members[fresh], ~kept[fresh], len(told),
            lambda own: self.cache.columns(members[told], self.samples.places(own)), self.samples.vectors)
        relate(between, fresh, told, columns)
        if len(missing):
            self.cache.put(missing, vectors)
            among = np.empty((len(absent), len(absent)))
            self._compute(missing, np.arange(len(absent)), among)
            relate(between, absent, absent, among)

    def _compute(self, members, some, between):
        """Compute K of some of these samples, by index, with all of them. All are in the cache."""
        self.cache.among(members, some, between)
        mirror(between, some)
        self.repeated += len(some) * len(members)

    def _inside(self, members, errors, gap):
        """Close most of the gap among the members; return (their errors, their weights, the number of changes)."""
        alpha = self.alpha[members]
        steps = change_block(self.between, errors, self.labels[members], alpha, self.options.c,
                             self.options.selection == "second", max(2 * self.options.tolerance, CLOSE * gap),
                             STEPS * len(members))
        return errors, alpha, steps

    def _change(self, members, weights):
        """Set the members' weights, and add the changes to the errors of this rank's samples, in sample order."""
        changes = (weights - self.alpha[members]) * self.labels[members]
        changed = np.flatnonzero(changes)
        self.cache.add_to(self.samples.error, members[changed], changes[changed])
        self.alpha[members] = weights
        self.samples.set_states(members[changed], self.alpha, self.options.c)
