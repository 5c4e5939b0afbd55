"""Dense variables, cut into pieces. The owner of a piece adds up its gradients, updates it, and sends its values.

    push    rank --- gradient of the piece, by tree node ------> owner      pull    owner --- its values --> every rank

The strategies "server" (a piece is a whole variable) and "reduce-scatter" (a piece is some rows) share this file. The
server itself: ``refimpl.server.dense``.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kernels.arrays import as_array
from models import Variable
from refimpl.gradients import Arena, Layout
from refimpl.plan.codecs import scale_bytes
from refimpl.plan.partitions.parts import RowsOf
from refimpl.plan.strategy import Strategy
from refimpl.server import Holding, ReducedGradient, Shard
from refimpl.server.dense import DenseServer, LocalDenseAggregation
from refimpl.strategies.blocks import blocks_of, table_shape
from refimpl.strategies.exchange import Exchange
from refimpl.strategies.served_bytes import across, inside, nodes_pushed


class Piece(NamedTuple):
    """Consecutive rows of a dense variable, and the rank that owns them. part: the variable itself if it is whole."""

    owner: int
    part: Variable | RowsOf


def rows_in(part) -> range:
    """Return the row numbers of a piece in its variable. A scalar is one row. Local."""
    return part.rows if isinstance(part, RowsOf) else range(table_shape(part)[0])


@dataclass(frozen=True)
class OwnedDense(Strategy):
    """The base class of strategies in which dense variables have owners."""

    replicated = False
    keys = (("pull", "dense"), ("scatter", "dense"), ("aggregate", "dense"), ("push", "dense"))

    @classmethod
    def pieces(cls, placed: list, ranks: int) -> list[Piece]:
        """Return the pieces of variables that are exchanged together. Local.

        placed: (variable, strategy) of each.  An owner has one piece of a variable at most.
        """
        raise NotImplementedError

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """The bytes of each node's gradient from each client to the owner, and of the values back to each client."""
        owned, codec, found = {}, placed[0][1].coding, scale_bytes(placed, plan.ranks)
        for piece in cls.pieces(placed, plan.ranks):
            owned.setdefault(piece.part.name, np.zeros(plan.ranks, np.int64))[piece.owner] += piece.part.size
        (of_rank, of_client), one = nodes_pushed(plan), np.ones(plan.ranks, np.int64)
        dtypes = {variable.name: variable.dtype for variable, _ in placed}
        for name, elements in owned.items():
            kinds = dtypes[name], codec.dtype_of(dtypes[name])
            whole, sent = (elements * np.dtype(dtype).itemsize for dtype in kinds)
            found |= {("pull", name, "dense"): across(plan, one, whole).T,
                      ("scatter", name, "dense"): inside(plan, one, whole).T,
                      ("aggregate", name, "dense"): inside(plan, of_rank, sent),
                      ("push", name, "dense"): across(plan, of_client, sent)}
        return found


class OwnedDenseExchange(Exchange, of=OwnedDense):
    """Dense variables at their owners. Collective to use; see ``strategies.exchange.Exchange``.

    pieces: of all owners, in the order of the arena, so that all pieces of an owner are contiguous.
    shards: of the pieces that this rank owns.
    """

    phase, replicated = "push", False

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed, xp, shared)
        codec, self.pieces = self.codec, (pieces := type(placed[0][1]).pieces(placed, plan.ranks))
        self.variables = list({part.name: getattr(part, "whole", part) for _, part in pieces}.values())
        layout = Layout.of(self.variables)
        self.values = Arena(layout, xp)
        self.gradients = self.dense_tree(layout.encoded(codec), xp, codec, plan.microbatches)
        self.shards = {}
        for part in [part for owner, part in pieces if owner == comm.rank]:
            values = self.values[part.name]
            if isinstance(part, RowsOf):
                values = values[part.rows.start:part.rows.stop]
            values[...] = as_array(xp, part.initial_value(seed))  # the first pull brings those of the other owners
            self.shards[part.name] = Shard(part, values)
        sizes = [sum(part.size for owner, part in pieces if owner == r) for r in range(comm.size)]
        ends = np.cumsum([0] + sizes).tolist()
        self.stretches = [slice(*ends[r:r + 2]) for r in range(comm.size)]
        self.decoded = codec.room(self.values.flat[self.stretches[comm.rank]])
        elements = [layout.overlaps(stretch.start, stretch.stop) for stretch in self.stretches]
        self.server = DenseServer([self.values.flat[stretch] for stretch in self.stretches], elements, comm,
                                  plan.clients(), codec, xp)
        aggregators = plan.aggregators()
        if aggregators is not None:
            self.server = LocalDenseAggregation(self.server, aggregators, plan.microbatches)

    def pull(self, needs, phase="pull"):
        self.server.pull(phase)
        return {}

    def dense(self):
        return self.values.views

    def push(self):
        parts = self.take_dense()
        total = self.server.push({owner: [(node, arena.flat[stretch]) for node, arena in parts]
                                  for owner, stretch in enumerate(self.stretches)})
        self.gradients.give_back(arena for _, arena in parts)
        reduced, first = [], 0
        for shard in self.shards.values():
            size = shard.variable.size
            part = slice(first, first + size)
            gradient = self.gradients.decode(shard.variable.name, total[part],
                                             None if self.decoded is None else self.decoded[part])
            reduced.append(ReducedGradient(shard, None, gradient.reshape(shard.variable.shape), True))
            first += size
        return reduced

    def blocks(self, name, slot, takers, phase):
        variable = next(v for v in self.variables if v.name == name)
        owned = {owner: [rows_in(part)] for owner, part in self.pieces if part.name == name}
        mine = self.shards[name].array(slot) if name in self.shards else None
        return blocks_of(self.comm, self.xp, variable, mine, lambda _: owned, takers, phase)

    def kept(self, name):
        if name not in self.shards:
            return []
        part = self.shards[name].variable
        return [Holding(self.shards[name], [part.rows] if isinstance(part, RowsOf) else None, alone=True)]
