"""Strategy "server" of sparse variables: rows in P partitions. The owner of each serves, sums and updates its rows.

    bytes in and out of a rank: 4 α w (N - 1) / N, and 8 for each row number      (docs/paper.md, Bytes)

The server itself: ``refimpl.server.rows``, and ``local_aggregation`` around it. Plain: ``plain.strategies.server``.
"""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from kernels import array_module
from refimpl.collectives.running.runner import CHANNELS, TREES
from refimpl.collectives.running.segments import LANES
from refimpl.gradients import RowTree
from refimpl.plan.partitions.parts import cut_lists
from refimpl.plan.strategy import Owners, Strategy
from refimpl.server import Holding, Partitioning, Shard
from refimpl.server.local_aggregation import LocalAggregation
from refimpl.server.moves import move_rows, moves_of
from refimpl.server.partition import row_bytes
from refimpl.server.rounds import partitions_a_round
from refimpl.server.rows import RowServer
from refimpl.strategies.blocks import blocks_of
from refimpl.strategies.exchange import Exchange
from refimpl.strategies.served_bytes import pull_rows, push_rows


@dataclass(frozen=True)
class ServedRows(Strategy):
    """owners: the rank of each partition.  scheme: which rows a partition has, see ``Partitioning``."""

    name, sparse, replicated, partitioned, early = "server", True, False, True, True
    label, colour, mark = "server", "blue", "o"
    keys = (("gather", "indices"), ("pull", "indices"), ("pull", "rows"), ("scatter", "rows"),
            ("aggregate", "indices"), ("aggregate", "rows"), ("push", "indices"), ("push", "rows"))

    owners: Owners = ()
    scheme: str = "contiguous"

    @classmethod
    def place(cls, variable, load, partitions, scheme):
        parts = Partitioning.dealt(variable.shape[0], partitions, load, scheme)
        for owner, rows in zip(parts.owners, parts.sizes.tolist()):
            load[owner] += row_bytes(variable) * rows
        return cls(parts.owners, scheme)

    def with_owners(self, owners, scheme: str | None = None) -> "ServedRows":
        """Return the strategy with other partitions and, if given, another scheme. Local."""
        return replace(self, owners=tuple(owners), scheme=self.scheme if scheme is None else scheme)

    def partitioning(self, variable, ranks: int) -> Partitioning:
        """Return the partitions of a variable. Local."""
        return Partitioning(variable.shape[0], self.owners, ranks, self.scheme)

    def check(self, variable, ranks):
        if not self.owners:
            raise ValueError("owners []; on the server a sparse variable has at least one owner, the rank of each "
                             "partition")
        super().check(variable, ranks)
        self.partitioning(variable, ranks)  # refuses an unknown scheme

    def loads(self, variable, ranks, popularity=None):
        parts = self.partitioning(variable, ranks)
        if popularity is None:
            return parts.sizes * float(row_bytes(variable))
        rows = map(parts.rows_of_partition, range(parts.partitions))
        return np.array([popularity[r.start:r.stop:r.step].sum() for r in rows], np.float64) * row_bytes(variable)

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        found: dict = {}
        for variable, strategy in placed:
            parts, (pulled, pushed) = strategy.partitioning(variable, plan.ranks), touched(variable)
            for key, matrix in {**pull_rows(variable, parts, plan, pulled),
                                **push_rows(variable, parts, plan, pushed, strategy.coding)}.items():
                found[key] = found.get(key, 0) + matrix
        return found

    def message_rounds(self, variable, ranks):
        most = max(Counter(self.owners).values())
        return -(-most // partitions_a_round(self.partitioning(variable, ranks), row_bytes(variable)))

    def work(self, variable, plan, sample):
        parts, total = self.partitioning(variable, plan.ranks), np.zeros(plan.ranks)
        for ids in cut_lists(variable, sample.by_anyone[variable.name]):
            total += row_bytes(variable) * parts.counts(ids) / len(sample.steps)
        return total


class ServedRowsExchange(Exchange, of=ServedRows):
    """Sparse variables on the server. Collective to use; see ``strategies.exchange.Exchange``."""

    phase, replicated = "push", False

    def __init__(self, placed, plan, comm, seed, xp=np, shared=True):
        super().__init__(placed, plan, comm, seed, xp, shared)
        self.plan = plan
        self.gradients = RowTree(self.variables, xp, self.codec)
        parts = {v.name: strategy.partitioning(v, comm.size) for v, strategy in placed}
        self._serve(parts, {v.name: Shard(v, self._initial(v, parts[v.name], seed, xp)) for v in self.variables})

    def _serve(self, partitionings, shards):
        self.partitionings, self.shards = partitionings, shards
        self.server = RowServer(shards, partitionings, self.comm, self.plan.clients(), self.codec)
        aggregators = self.plan.aggregators()
        if aggregators is not None and any(len(ranks) > 1 for ranks in self.plan.on_machines):
            self.server = LocalAggregation(self.server, aggregators, self.plan.microbatches)

    def _initial(self, variable, parts, seed, xp):
        tables = [variable.initial_rows(seed, rows.start, rows.stop, rows.step)
                  for rows in parts.ranges_of(self.comm.rank)]
        return xp.asarray(np.concatenate([np.empty((0, variable.shape[1]), variable.dtype), *tables]))

    def pull(self, needs, phase="pull"):
        return self.server.pull({name: needs[name] for name in self.shards if name in needs}, phase)

    def pulling(self, needs):
        return self.server.pulling(needs, tag=self.tag) if self.tag else super().pulling(needs)

    @property
    def tag(self) -> int:
        """The tag of rows that travel beside other messages; 0 if they must not.

        Its lane is the first of the exchange's channel (``collectives.running.runner``). No other exchange has this
        channel, and this one runs no schedule. So no other message has this tag.
        """
        tag, alone = 1 + CHANNELS + LANES * self.channel, isinstance(self.server, RowServer)
        return tag if tag <= TREES and alone and self.comm.host_transport.has_tags else 0

    def begin(self):
        if self.tag:
            self.pushing = self.server.push(self.gradients.take(), tag=self.tag)
            next(self.pushing)

    def push(self):
        """Return the sums of the rows that this rank owns, one for each round of its partitions."""
        pushing, self.pushing = self.pushing or self.server.push(self.gradients.take()), None
        return [reduced for reduced in pushing if reduced is not None]

    def blocks(self, name, slot, takers, phase):
        shard, parts = self.shards[name], self.partitionings[name]
        owned, mine = {r: parts.ranges_of(r) for r in range(self.comm.size)}, shard.array(slot)
        return blocks_of(self.comm, array_module(mine), shard.variable, mine, lambda _: owned, takers, phase)

    def kept(self, name):
        return [Holding(self.shards[name], self.partitionings[name].ranges_of(self.comm.rank), alone=True)]

    # -- new partitions during a training

    def tables_for(self, plan) -> dict:
        """Return name -> slot (None: values) -> a new array, for each variable that the plan partitions anew. Local."""
        moving = [v for v in self.variables if self._next(plan, v) != self.partitionings[v.name]]
        return {v.name: {slot: array_module(array).empty((self._next(plan, v).rows_owned(self.comm.rank),
                                                          *array.shape[1:]), array.dtype)
                         for slot, array in self.shards[v.name].arrays.items()}
                for v in moving}

    def follow(self, plan, tables: dict):
        """Change to another plan's partitions: rows and state go directly from owner to owner. Collective.

        tables: of ``tables_for``. They are filled one by one, and each old array is freed before the next is filled.
        """
        self.plan = plan
        for name, new in tables.items():
            shard = self.shards[name]
            moves = moves_of(self.partitionings[name], self._next(plan, shard.variable), self.comm.rank)
            for slot in list(new):
                move_rows(self.comm, [(name, moves, shard.array(slot), new[slot])], "repartition")
                if slot is None:
                    shard.values = new.pop(slot)
                else:
                    shard.state[slot] = new.pop(slot)
        self._serve({v.name: self._next(plan, v) for v in self.variables}, self.shards)

    def _next(self, plan, variable):
        """Return the partitions of a variable in a plan. With hot rows, the variable is the part on the server."""
        parts = plan.strategies[variable.name].parts(getattr(variable, "whole", variable))
        strategy = next(strategy for _, strategy in parts if isinstance(strategy, ServedRows))
        return strategy.partitioning(variable, self.comm.size)
