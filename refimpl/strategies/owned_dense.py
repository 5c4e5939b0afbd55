"""Dense variables, cut into pieces. The owner of a piece adds up its gradients, updates it, and sends its values.

    push    rank --- gradient of the piece, by tree node ------> owner      pull    owner --- its values --> every rank

The strategies "server" (a piece is a whole variable) and "reduce-scatter" (a piece is some rows) share this file. The
server itself: ``refimpl.server.dense``.
"""

from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from kernels.arrays import as_array
from models import Variable
from refimpl.gradients import Arena, Layout
from refimpl.plan.codecs import scale_bytes
from refimpl.plan.partitions.parts import rows_of
from refimpl.plan.strategy import Strategy
from refimpl.server import Holding, ReducedGradient, Shard
from refimpl.server.dense import DenseServer, LocalDenseAggregation
from refimpl.strategies.blocks import blocks_of
from refimpl.strategies.exchange import Exchange
from refimpl.strategies.served_bytes import across, inside, nodes_pushed


class Piece(NamedTuple):
    """Consecutive rows of a dense variable, and the rank that owns them. A scalar is one row."""

    owner: int
    variable: Variable
    rows: range

    @classmethod
    def whole_of(cls, owner: int, variable) -> "Piece":
        """Return all rows of a variable as one piece. Local."""
        return cls(owner, variable, range(variable.shape[0] if variable.shape else 1))

    @property
    def is_whole(self) -> bool:
        """Whether the piece has all rows."""
        return self.rows == self.whole_of(self.owner, self.variable).rows

    @property
    def size(self) -> int:
        """The number of elements."""
        return len(self.rows) * prod(self.variable.shape[1:])

    def of(self, whole):
        """Return a view of these rows of a whole array. Local."""
        return whole if self.is_whole else whole[self.rows.start:self.rows.stop]

    def as_variable(self) -> Variable:
        """Return these rows as a variable of the same name. Local."""
        return self.variable if self.is_whole else rows_of(self.variable, self.rows.start, self.rows.stop)


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
            owned.setdefault(piece.variable.name, np.zeros(plan.ranks, np.int64))[piece.owner] += piece.size
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
        self.variables = list({piece.variable.name: piece.variable for piece in pieces}.values())
        layout = Layout.of(self.variables)
        self.values = Arena(layout, xp)
        self.gradients = self.dense_tree(layout.encoded(codec), xp, codec, plan.microbatches)
        self.mine = {p.variable.name: p for p in pieces if p.owner == comm.rank}
        self.shards = {name: Shard(p.as_variable(), p.of(self.values[name])) for name, p in self.mine.items()}
        for shard in self.shards.values():  # the first pull brings the values of the other owners
            shard.values[...] = as_array(xp, shard.variable.initial_value(seed))
        ends = np.cumsum([0] + [sum(p.size for p in pieces if p.owner == r) for r in range(comm.size)]).tolist()
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
        pieces = [piece for piece in self.pieces if piece.variable.name == name]
        mine = self.shards[name].array(slot) if name in self.mine else None
        return blocks_of(self.comm, self.xp, pieces[0].variable, mine,
                         lambda _: {piece.owner: [piece.rows] for piece in pieces}, takers, phase)

    def kept(self, name):
        piece = self.mine.get(name)
        return [Holding(self.shards[name], None if piece.is_whole else [piece.rows], alone=True)] if piece else []
