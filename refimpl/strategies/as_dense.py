"""Strategy "as-dense" of sparse variables: allreduce sums the whole gradient, as if dense (``--sparse-as-dense``).

    bytes in and out of a rank: 4 (w + 4 R) (N - 1) / N for R rows and any α: less than the server's if α is near 1

One number more for each row, its mark, counts the gradients of this row. So only touched rows are updated, as with any
other strategy (I3).
"""

from dataclasses import dataclass

import numpy as np

from kernels import take_rows, to_numpy
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.gradients import TOUCHED, Arena, Layout
from refimpl.gradients.codecs import IDENTITY, codec_of
from refimpl.plan.partitions.parts import cut_lists
from refimpl.server import ReducedGradient
from refimpl.strategies.allgather import ReplicatedRows
from refimpl.strategies.allreduce import Allreduce


@dataclass(frozen=True)
class RowsAsDense(Allreduce):
    """An allreduce of the whole variable and of its marks."""

    name, sparse = "as-dense", True
    label, colour, mark = "whole, as if dense (allreduce)", "black", "^"

    @classmethod
    def arena(cls, variables, codec=codec_of(IDENTITY)):
        return Layout.of(variables).encoded(codec).with_marks()

    def work(self, variable, plan, sample):
        """The work of filling an array and of updating the touched rows."""
        touched = cut_lists(variable, sample.by_anyone[variable.name])
        part = np.mean([len(ids) for ids in touched]) / max(1, variable.shape[0]) if touched else 0.0
        return np.full(plan.ranks, variable.nbytes * (1 + part))


class RowsAsDenseExchange(ReplicatedRows, of=RowsAsDense):
    """Sparse variables sent whole. Collective to use; see ``strategies.exchange.Exchange``."""

    phase = "allreduce"

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed, xp, shared)
        self.layout, self.schedule = RowsAsDense.arena(self.variables, self.codec), plan.schedule()
        self.filled = False

    def open(self):
        # x + -0.0 is x for every x, while -0.0 + 0.0 is 0.0. An array with an axis, because CuPy turns the number
        # -0.0, and an array of it without axes, into 0.0
        self.nothing, self.one = (self.codec.encode(self.xp.asarray(np.full(1, number, self.variables[0].dtype)))
                                  for number in (-0.0, 1))
        self.allreduce = open_allreduce(self.schedule, self.comm, self.layout.size, self.nothing, "allreduce",
                                        self.layout.overlaps, self.shared, self.channel, self.codec.merge)
        self.arenas = [Arena(self.layout, flat=slot) for slot in self.allreduce.slots]

    def begin(self):
        self._fill()
        self.allreduce.begin()

    def advance(self):
        return self.allreduce.advance()

    def _fill(self):
        """Write the added gradients into the slots of the allreduce."""
        parts, self.filled = self.gradients.take(), True
        for arena in self.arenas:
            arena.flat[...] = self.nothing
        for name, nodes in parts.items():
            for arena, (_, gradient) in zip(self.arenas, nodes):
                ids = self.xp.asarray(gradient.ids)
                arena[name][ids] = gradient.rows
                arena[name + TOUCHED][ids] = self.one

    def push(self):
        if not self.filled:
            self._fill()
        self.filled = False
        total, reduced = Arena(self.layout, flat=self.codec.decode(self.allreduce())), []
        self.comm.settle()
        for name, shard in self.shards.items():
            ids = to_numpy(self.xp.flatnonzero(total[name + TOUCHED]))
            reduced.append(ReducedGradient(shard, ids, take_rows(total[name], ids), self.comm.rank == 0))
        return reduced
