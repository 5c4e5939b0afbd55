"""Blocks of pairs: in one round the ranks agree on many samples, and each computes all changes among them by itself.

So there are fewer rounds. All ranks know the errors of a block's samples and compute the same changes. Samples of the
last rounds stay in the block, because a change of others often opens their gap again; without them twice as many
changes are needed.
"""

import time

import numpy as np

from kernels.svm.block import change_block
from models.svm.solver import BLOCK_ROWS, Solver

STEPS = 100
"""The largest number of changes in a round, for each sample of a block."""
CLOSE = 0.1
"""A round ends when the gap among the block's samples is this part of the gap that it began with."""


class BlockSolver(Solver):
    """A ``Solver`` that changes the ``options.block`` samples at each end of the gap in a round, and those of before.

    kept: number -> error of the block's samples, the newest first. One that is eliminated stays until it is pushed out;
    the reconstruction at the end corrects its error on its own rank.
    members, between: the samples of the last round, rising, and K of each two.
    """

    def __init__(self, rows, labels, kernel, options, ranks=None):
        super().__init__(rows, labels, kernel, options, ranks)
        self.members, self.between, self.kept = np.empty(0, np.int64), np.empty((0, 0)), {}
        self.ahead = 0  # a block is large enough for one pass over the features

    def _descend(self):
        self.kept, most = {}, min(BLOCK_ROWS * self.options.block, len(self.alpha))
        while True:
            ends = self._nearest(self.options.block)
            up, low = ends[0][0][0], -ends[1][0][0]
            if low - up <= 2 * self.options.tolerance:
                return
            self._eliminate(up, low)
            fresh = {n: error for error, n in ends[0] if error < low}
            fresh |= {n: -error for error, n in ends[1] if -error > up}
            old = [(n, error) for n, error in self.kept.items() if n not in fresh]
            self.kept = dict([*fresh.items(), *old][:most])
            members = np.array(sorted(self.kept))
            self._need(members)
            self._relate(members)
            began = time.process_time()
            errors, weights, steps = self._inside(members, low - up)
            self.alone += time.process_time() - began
            self._change(members, weights)
            self.kept.update(zip(members.tolist(), errors.tolist()))
            self.iterations += steps

    def _relate(self, members):
        """Get K between all members from the owners of new ones, who have it in their columns of the rows. Collective.
        """
        known = np.isin(members, self.members)
        before = np.searchsorted(self.members, members[known])
        between = np.empty((len(members), len(members)))
        between[np.ix_(known, known)] = self.between[np.ix_(before, before)]
        if not known.all():
            columns = self.traffic.columns(members[~known], len(members), lambda own: self.cache.columns(
                members, self.samples.place[own // self.ranks.size]))
            between[~known], between[:, ~known] = columns, columns.T
        self.members, self.between = members, between

    def _inside(self, members, gap):
        """Close most of the gap among the members; return their errors, their weights, and the number of changes."""
        alpha, errors = self.alpha[members], np.array([self.kept[n] for n in members.tolist()])
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
