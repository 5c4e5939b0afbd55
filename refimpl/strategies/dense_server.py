"""Strategy "server" of dense variables: each whole on one owner, as in the classical parameter server.

    bytes at the owner of w bytes: 2 w (N - 1), the hot spot that allreduce does not have    (docs/paper.md, Bytes)

The server itself: ``refimpl.server.dense``. Plainly: ``refimpl.plain.dense_server``.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.gradients import Arena, DenseTree, Layout
from refimpl.plan.strategy import Owners, Strategy
from refimpl.server import ReducedGradient, Shard
from refimpl.server.dense import DenseServer, LocalDenseAggregation
from refimpl.strategies.exchange import BaseExchange
from refimpl.strategies.served_bytes import across, inside, nodes_pushed


@dataclass(frozen=True)
class ServedDense(Strategy):
    """owners: the one rank that keeps it, as a tuple."""

    name, sparse, replicated = "server", False, False
    label, colour, mark = "server", "blue", "o"
    keys = (("pull", "dense"), ("scatter", "dense"), ("aggregate", "dense"), ("push", "dense"))

    owners: Owners = ()

    @classmethod
    def place(cls, variable, load, partitions, scheme):
        owner = load.index(min(load))
        load[owner] += variable.nbytes
        return cls((owner,))

    def check(self, variable, ranks):
        if len(self.owners) != 1:
            raise ValueError(f"owners {list(self.owners)}; on the server a dense variable has exactly one owner: it is "
                             "not cut")
        super().check(variable, ranks)

    def loads(self, variable, ranks, popularity=None):
        return np.array([float(variable.nbytes * ranks)])  # every rank pulls it whole

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """w bytes: to the owner for each node of each client, and from it to each; with aggregation within machines."""
        found = {}
        of_rank, of_client = nodes_pushed(plan)
        for variable, strategy in placed:
            whole = np.zeros((plan.ranks, plan.ranks), np.int64)
            whole[:, strategy.owners[0]] = variable.nbytes
            found |= {("pull", variable.name, "dense"): across(plan, whole).T,
                      ("scatter", variable.name, "dense"): inside(plan, whole).T,
                      ("aggregate", variable.name, "dense"): inside(plan, of_rank[:, None] * whole),
                      ("push", variable.name, "dense"): across(plan, of_client[:, None] * whole)}
        return found

    @classmethod
    def bucket_bytes(cls, least, ranks):
        return least * ranks  # so much for each owner, for all of them to be at work

    def work(self, variable, plan, sample):
        total = np.zeros(plan.ranks)
        total[self.owners[0]] = variable.nbytes
        return total

    @classmethod
    def exchange(cls, placed, plan, comm, seed, xp, shared):
        return ServedDenseExchange(placed, plan, comm, seed, xp)


class ServedDenseExchange(BaseExchange):
    """Dense variables on the server. Collective to use; see ``strategies.exchange.Exchange``.

    The arena is ordered by owner, so that what a rank and an owner exchange is one piece of it.
    """

    phase, replicated = "push", False

    def __init__(self, placed: list, plan, comm, seed: int, xp=np):
        self.comm, self.xp = comm, xp
        self.owner = {v.name: strategy.owners[0] for v, strategy in placed}
        self.variables = sorted((v for v, _ in placed), key=lambda v: self.owner[v.name])  # else in the model's order
        layout = Layout.of(self.variables)
        ends = np.cumsum([0] + [sum(v.size for v in self.variables if self.owner[v.name] == r)
                                for r in range(comm.size)]).tolist()
        self.pieces = [slice(*ends[r:r + 2]) for r in range(comm.size)]
        elements = [layout.overlaps(piece.start, piece.stop) for piece in self.pieces]
        self.values = Arena(layout, xp).fill({v.name: v.initial_value(seed) for v in self.variables})
        self.gradients = DenseTree(layout, xp)
        self.shards = {v.name: Shard(v, self.values[v.name]) for v in self.variables
                       if self.owner[v.name] == comm.rank}
        flats = [self.values.flat[piece] for piece in self.pieces]
        self.server = DenseServer(flats, elements, comm, plan.clients(), xp)
        aggregators = plan.aggregators()
        if aggregators is not None:
            self.server = LocalDenseAggregation(self.server, aggregators, plan.microbatches)

    def pull(self, needs, phase="pull"):
        """Bring the values up to date. Collective."""
        self.server.pull(phase)
        return {}

    def dense(self):
        """Return name -> whole value, as pulled. Local."""
        return self.values.views

    def push(self):
        """Return the sums of the variables that this rank owns. Collective."""
        parts = self.gradients.take()
        total = self.server.push({owner: [(node, arena.flat[piece]) for node, arena in parts]
                                  for owner, piece in enumerate(self.pieces)})
        self.gradients.give_back(arena for _, arena in parts)
        reduced, first = [], 0
        for shard in self.shards.values():
            size = shard.variable.size
            reduced.append(ReducedGradient(shard, None, total[first:first + size].reshape(shard.variable.shape), True))
            first += size
        return reduced

    def collect(self, name, slot, everyone, phase):
        """Return a whole variable or state array, on rank 0 or on everyone. Collective."""
        owner, me = self.owner[name], self.comm.rank
        takers = [r for r in (range(self.comm.size) if everyone else [0]) if r != owner]
        variable = next(v for v in self.variables if v.name == name)
        if me == owner:
            whole = self.shards[name].array(slot)
            self.comm.exchange([(r, whole, {name: variable.size}) for r in takers], [], phase, "dense")
            return whole if everyone or me == 0 else None
        if me not in takers:
            return None
        whole = self.xp.empty(variable.shape, variable.dtype)
        self.comm.exchange([], [(owner, whole, {name: variable.size})], phase, "dense")
        return whole

    def place(self, name, slot, read):
        """Set what this rank owns. Local."""
        if name in self.shards:
            self.shards[name].array(slot)[...] = read(None)
