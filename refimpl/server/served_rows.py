"""Sparse variables sharded over the ranks: pull the rows a step needs, push row gradients to their owners.

Every rank is a worker and a server. What a rank owns itself never leaves it. (PAPER.md, Mechanisms.)
"""

from typing import Callable

import numpy as np

from kernels import array_module
from refimpl.gradients import RowTree
from refimpl.server.groups import Groups
from refimpl.server.partition import Partitioning
from refimpl.server.pull import Pull
from refimpl.server.push import Push
from refimpl.server.road import Holding, Summed
from refimpl.server.shards import Shards
from refimpl.transport import Communicator


class ServedRows:
    """The road of sparse variables on the server. Collective to use: all ranks call the same methods in step.

    partitionings: name -> Partitioning, the same on every rank.  leaves: V, the number of microbatches.
    groups: ranks that unite pulls and aggregate gradients; None: each rank speaks for itself.
    """

    phase, local = "push", False

    def __init__(self, variables, partitionings: dict[str, Partitioning], comm: Communicator, leaves: int, seed: int, xp=np,
                 groups: Groups | None = None):
        self.comm, self.partitionings, self.leaves = comm, partitionings, leaves
        self.variables = list(variables)
        self.row_bytes = {v.name: v.shape[1] * np.dtype(v.dtype).itemsize for v in variables}
        self.shards = Shards(partitionings, self.row_bytes, comm, groups or Groups.alone(comm.size))
        self.gradients = RowTree(variables, xp)
        self.holdings = {v.name: Holding(v, self._initial(v, seed, xp)) for v in variables}
        self.others = [r for r in range(comm.size) if r != comm.rank]

    def _initial(self, variable, seed, xp):
        parts = self.partitionings[variable.name]
        tables = [variable.initial_rows(seed, rows.start, rows.stop, rows.step)
                  for rows in map(parts.rows_of_partition, parts.partitions_of(self.comm.rank))]
        return xp.asarray(np.concatenate([np.empty((0, variable.shape[1]), variable.dtype), *tables]))

    def follow(self, partitionings):
        """Serve by other partitions from now on; the holdings' arrays are the new tables already. Local."""
        self.partitionings = partitionings
        self.shards = Shards(partitionings, self.row_bytes, self.comm, self.shards.groups)

    def dense(self):
        return {}

    def open(self):
        pass

    def pull(self, needs, phase="pull"):
        needs = {name: needs[name] for name in self.holdings if name in needs}
        return Pull(self.shards, {name: self.holdings[name].values for name in needs}, needs, phase).run()

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def held(self):
        return self.gradients.held()

    def push(self, arrived: Callable[[Summed], None] | None = None):
        summed = []
        for piece in Push(self.shards, self.holdings, self.gradients.take(), self.leaves).run():
            summed.append(piece)
            if arrived is not None:
                arrived(piece)
        return summed

    def collect(self, name, slot, everyone, phase):
        parts, variable = self.partitionings[name], self.holdings[name].variable
        mine = self.holdings[name].array(slot)
        takers = range(self.comm.size) if everyone else [0]
        sends = [(r, mine, {name: mine.size}) for r in takers if r != self.comm.rank]
        if self.comm.rank not in takers:
            self.comm.exchange(sends, [], phase, "rows")
            return None
        xp = array_module(mine)
        tables = {r: xp.empty((parts.rows_owned(r), variable.shape[1]), mine.dtype) for r in self.others}
        self.comm.exchange(sends, [(r, t, {name: t.size}) for r, t in tables.items()], phase, "rows")
        whole = xp.empty(variable.shape, mine.dtype)
        for rank in range(self.comm.size):
            table, first = mine if rank == self.comm.rank else tables[rank], 0
            for rows in map(parts.rows_of_partition, parts.partitions_of(rank)):
                whole[rows.start:rows.stop:rows.step] = table[first:first + len(rows)]
                first += len(rows)
        return whole

    def place(self, name, slot, read):
        parts, target, first = self.partitionings[name], self.holdings[name].array(slot), 0
        for rows in map(parts.rows_of_partition, parts.partitions_of(self.comm.rank)):
            target[first:first + len(rows)] = read(rows)
            first += len(rows)
