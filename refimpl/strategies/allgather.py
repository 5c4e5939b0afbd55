"""Strategy "allgather" of sparse variables: every rank has a replica, and gets the row gradients of all ranks.

    bytes in and out of a rank: 2 α w (N - 1), N / 2 times those of the server         (docs/paper.md, Bytes)

Every rank adds them up in tree order, and updates its own copy of these rows. Plain: ``plain.strategies.replicas``.
"""

from dataclasses import dataclass

import numpy as np

from kernels import RowGradient, array_module, take_rows
from refimpl.gradients import RowTree, cover, fold, leaves_of
from refimpl.plan.between import Between
from refimpl.plan.cost import INDEX
from refimpl.plan.partitions.parts import cut_lists
from refimpl.plan.strategy import Strategy
from refimpl.server import ReducedGradient, Shard
from refimpl.server.partition import row_bytes
from refimpl.strategies.exchange import Replicas, in_stages


@dataclass(frozen=True)
class GatheredRows(Strategy):
    """The strategy in a plan. It has no fields: all ranks keep the variable."""

    name, sparse = "allgather", True
    label, colour, mark = "rows to all (allgather)", "orange", "s"
    keys = (("allgather", "indices"), ("allgather", "rows"))

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """(8 + d s) k_r from rank r to each other rank, for its k_r gradient rows; 8 for the length of each node."""
        found = {}
        most = max(len(cover(leaves_of(r, plan.ranks, plan.microbatches))) for r in range(plan.ranks))
        for variable, strategy in placed:
            _, pushed = touched(variable)
            rows = Between.to_all(np.array([sum(map(len, per_node)) for per_node in pushed]))
            found["allgather", variable.name, "indices"] = INDEX * rows
            found["allgather", variable.name, "rows"] = row_bytes(variable, strategy.coding) * rows
        lengths = Between.to_all(np.full(plan.ranks, INDEX * most * len(placed)))
        return found | {("allgather", "", "control"): lengths}

    def work(self, variable, plan, sample):
        touched = cut_lists(variable, sample.by_anyone[variable.name])
        return np.full(plan.ranks, row_bytes(variable) * np.mean([len(ids) for ids in touched]) if touched else 0.0)


class ReplicatedRows(Replicas):
    """Sparse variables with all rows on every rank."""

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed, xp, shared)
        self.shards = {v.name: Shard(v, xp.asarray(v.initial_value(seed))) for v in self.variables}
        self.gradients = RowTree(self.variables, xp, self.codec)
        self.nodes = [cover(leaves_of(r, comm.size, plan.microbatches)) for r in range(comm.size)]

    def pull(self, needs, phase="pull"):
        return {name: take_rows(self.shards[name].values, ids) for name, ids in needs.items() if name in self.shards}


class GatheredRowsExchange(ReplicatedRows, of=GatheredRows):
    """Sparse variables by allgather. Collective to use; see ``strategies.exchange.Exchange``."""

    phase, index = "allgather", np.dtype(np.int64)  # index: of row numbers on their way

    def push(self):
        parts = self.gradients.take()
        most = max(len(nodes) for nodes in self.nodes)
        counts = np.zeros((most, len(parts)), np.int64)
        for j, nodes in enumerate(parts.values()):
            counts[:len(nodes), j] = [len(g) for _, g in nodes]
        arrived = self._allgather(parts, self.comm.share(counts, "allgather"))
        reduced = []
        for name, shard in self.shards.items():
            nodes = [(node, RowGradient(g.ids.astype(np.int64, copy=False), g.rows))
                     for rank in range(self.comm.size) for node, g in zip(self.nodes[rank], arrived[name, rank])]
            reduced.append(self._reduced(shard, fold(nodes, self.codec.merge_rows)))
        return reduced

    def _reduced(self, shard, total) -> ReducedGradient:
        return ReducedGradient(shard, total.ids, self.codec.decode(total.rows), self.comm.rank == 0)

    def _room(self, name, rows):
        """Return an array in which row gradients of a variable arrive."""
        values = self.shards[name].values
        return RowGradient(np.empty(rows, self.index), array_module(values).empty(
            (rows, values.shape[1]), self.codec.dtype_of(values.dtype)))

    def _allgather(self, parts, counts):
        """Return (name, rank) -> the row gradients of the rank's nodes."""
        arrived = {(name, self.comm.rank): [g for _, g in nodes] for name, nodes in parts.items()}

        def begin(to, source):
            leaving, arriving = [], []
            for j, (name, nodes) in enumerate(parts.items()):
                arrived[name, source] = [self._room(name, n) for n in counts[source, :len(self.nodes[source]), j]]
                leaving += [(name, RowGradient(g.ids.astype(self.index, copy=False), g.rows)) for _, g in nodes]
                arriving += [(name, g) for g in arrived[name, source]]
            return [self.comm.start([(to, getattr(g, field), {name: getattr(g, field).size}) for name, g in leaving],
                                    [(source, getattr(g, field), {name: getattr(g, field).size})
                                     for name, g in arriving],
                                    "allgather", kind) for field, kind in (("ids", "indices"), ("rows", "rows"))]

        in_stages(self.comm, begin)
        return arrived
