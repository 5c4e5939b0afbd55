"""Strategy "allreduce" of dense variables: every rank has a replica; a schedule sums gradients, which are in one arena.

    bytes in and out of a rank: 4 w (N - 1) / N, and no hot spot       (docs/paper.md, Bytes)

The plan names the algorithm (``refimpl.collectives``). In plain: ``refimpl.plain.collectives.allreduce``, ``replicas``.
"""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.simulation.columns import columns_of
from refimpl.gradients import Arena, Layout
from refimpl.gradients.codecs import IDENTITY, codec_of
from refimpl.plan.between import Between
from refimpl.plan.codecs import scale_bytes
from refimpl.plan.strategy import Strategy
from refimpl.server import ReducedGradient
from refimpl.strategies.exchange import DenseReplicas


@dataclass(frozen=True)
class Allreduce(Strategy):
    """The strategy in a plan. It has no fields: all ranks keep the variable."""

    name, sparse, early = "allreduce", False, True
    label, colour, mark = "allreduce", "green", "D"
    keys = (("allreduce", "dense"),)

    @classmethod
    def arena(cls, variables, codec=codec_of(IDENTITY)):
        return Layout.of(variables).encoded(codec)

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        arena = cls.arena([variable for variable, _ in placed], placed[0][1].coding)
        return allreduce_bytes(arena, plan.predicted()[0]) | scale_bytes(placed, plan.ranks)


def allreduce_bytes(layout: Layout, schedule) -> dict:
    """Return {("allreduce", variable, "dense"): Between}, the bytes of each array in the schedule's transfers. Local.

    If every rank begins with one node of the tree, each rank sends 2 (N - 1) / N of the arena.
    """
    bounds, itemsize = schedule.bounds(layout.size), np.dtype(layout.dtype).itemsize
    total: dict = defaultdict(list)
    found: dict = {}
    for transfers in (zip(*(column.tolist() for column in step[:4])) for step in columns_of(schedule).rounds):
        for source, destination, start, stop in transfers:
            if (start, stop) not in found:
                found[start, stop] = layout.overlaps(bounds[start], bounds[stop])
            for name, elements in found[start, stop].items():
                total["allreduce", name, "dense"].append((source, destination, elements * itemsize))
    return {key: Between.listed(schedule.ranks, *np.array(sent).T) for key, sent in total.items()}


class AllreduceExchange(DenseReplicas, of=Allreduce):
    """Dense variables by allreduce. Collective to use; see ``strategies.exchange.Exchange``."""

    phase = "allreduce"

    def __init__(self, placed, plan, comm, seed, xp, shared, schedule=None):
        super().__init__(placed, plan, comm, seed, xp, shared)
        self.leaves, self.schedule = plan.microbatches, schedule or plan.schedule()

    def open(self):
        layout, codec = self.values.layout.encoded(self.codec), self.codec
        like = self.xp.empty(0, layout.dtype)
        self.allreduce = open_allreduce(self.schedule, self.comm, layout.size, like, "allreduce", layout.overlaps,
                                        self.shared and codec.dtype is None, self.channel, codec.merge)
        # a sum is computed in the buffer from which it is sent, so no copy is needed
        homes = {node.first_leaf: Arena(layout, flat=slot, codec=codec)
                 for node, slot in zip(self.schedule.inputs[self.comm.rank], self.allreduce.slots)}
        self.gradients = self.dense_tree(layout, self.xp, codec, self.leaves, homes)
        room = codec.room(self.values.flat)
        self.decoded = dict.fromkeys(self.shards) if room is None else Arena(self.values.layout, flat=room).views

    def begin(self):
        if not self.codec.scaled:  # if it is, ranks must agree on the scale first
            self.allreduce.begin()

    def advance(self):
        return self.allreduce.advance()

    def push(self):
        self.take_dense()
        total, counts = Arena(self.gradients.layout, flat=self.allreduce()), self.comm.rank == 0
        # the caller reads these before all ranks meet at the next step's data; until then no slot is overwritten
        return [ReducedGradient(shard, None, self.gradients.decode(name, total[name], self.decoded[name]), counts)
                for name, shard in self.shards.items()]
