"""Blocks of pairs: in one round the ranks agree on many samples, and each computes all changes among them by itself.

So there are fewer rounds. All ranks know the errors of a block's samples and compute the same changes. Samples of the
last rounds stay in the block, because a change of others often opens their gap again; without them twice as many
changes are needed.
"""

import time

import numpy as np

from kernels.svm.block import change_block, keep_related
from models.svm.solver import BLOCK_ROWS, Solver

STEPS = 100
"""The largest number of changes in a round, for each sample of a block."""
CLOSE = 0.1
"""A round ends when the gap among the block's samples is this part of the gap that it began with."""


class BlockSolver(Solver):
    """A ``Solver`` that changes the ``options.block`` samples at each end of the gap in a round, and those of before.

    A sample that is eliminated stays in the block until it is pushed out; the reconstruction at the end corrects its
    error on its own rank.
    between: K of each two samples of the last round, in the order of their numbers.  where: (n,), the places of these
    samples there; -1: not there.
    """

    def __init__(self, rows, labels, kernel, options, ranks=None):
        super().__init__(rows, labels, kernel, options, ranks)
        self.most = min(BLOCK_ROWS * options.block, len(labels))
        self.where, self.between = np.full(len(labels), -1), np.empty((0, 0))
        self.memory = np.empty(self.most**2), np.empty(self.most**2)  # for ``between`` of this round and the last one
        self.ahead = 0  # a block is large enough for one pass over the features

    def _descend(self):
        kept, errors = np.empty(0, np.int64), np.empty(0)  # the block's samples, the newest first
        while True:
            (least, first), (most, last) = self._nearest(self.options.block)
            up, low = least[0], -most[0]
            if low - up <= 2 * self.options.tolerance:
                return
            self._eliminate(up, low)
            kept = np.concatenate([first[least < low], last[-most > up], kept])
            newest = np.sort(np.unique(kept, return_index=True)[1])[:self.most]
            errors = np.concatenate([least[least < low], -most[-most > up], errors])[newest]
            kept = kept[newest]
            order = np.argsort(kept)
            members = kept[order]
            self._need(members)
            self._relate(members)
            began = time.process_time()
            errors[order], weights, steps = self._inside(members, errors[order], low - up)
            self.alone += time.process_time() - began
            self._change(members, weights)
            self.iterations += steps

    def _relate(self, members):
        """Get K between all members from the owners of new ones, who have it in their columns of the rows. Collective.
        """
        before, count = self.where[members], len(members)
        known, fresh = np.flatnonzero(before >= 0), np.flatnonzero(before < 0)
        self.memory = self.memory[::-1]
        between = self.memory[0][:count**2].reshape(count, count)
        keep_related(self.between, before[known], between, known)
        if len(fresh):
            columns = self.traffic.columns(members[fresh], count, lambda own: self.cache.columns(
                members, self.samples.place[own // self.ranks.size]))
            between[fresh], between[:, fresh] = columns, columns.T
        self.where[:] = -1
        self.where[members], self.between = np.arange(count), between

    def _inside(self, members, errors, gap):
        """Close most of the gap among the members; return their errors, their weights, and the number of changes."""
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
