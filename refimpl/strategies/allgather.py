"""Sparse variables replicated on every rank: their row gradients reach all ranks by allgather, or as dense arrays.

Both ways every rank ends with the same row gradient, the tree's sum, and updates its own copy of those rows.
"""

import numpy as np

from kernels import RowGradient, array_module, merge_rows, take_rows, to_numpy
from models import Variable
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.schedule import Schedule
from refimpl.gradients import TOUCHED, Arena, Layout, RowTree, cover, fold, leaves_of
from refimpl.server.road import Holding, Summed
from refimpl.server.rounds import ahead
from refimpl.transport import Communicator


class ReplicatedRows:
    """The road of sparse variables by allgather: 2 α w (N - 1) bytes in and out of each rank. Collective to use."""

    phase, local = "allgather", True

    def __init__(self, variables: list[Variable], comm: Communicator, leaves: int, seed: int, xp=np):
        self.comm, self.variables = comm, list(variables)
        self.holdings = {v.name: Holding(v, xp.asarray(v.initial_value(seed))) for v in variables}
        self.gradients = RowTree(variables, xp)
        self.nodes = [cover(leaves_of(r, comm.size, leaves)) for r in range(comm.size)]

    def open(self):
        pass

    def dense(self):
        return {}

    def pull(self, needs, phase="pull"):
        return {name: take_rows(holding.values, needs[name])
                for name, holding in self.holdings.items() if name in needs}

    def add(self, leaf, gradients):
        self.gradients.push(leaf, gradients)

    def held(self):
        return self.gradients.held()

    def push(self):
        parts = self.gradients.take()
        most = max(len(nodes) for nodes in self.nodes)
        counts = np.zeros((most, len(parts)), np.int64)
        for j, nodes in enumerate(parts.values()):
            counts[:len(nodes), j] = [len(g) for _, g in nodes]
        counts = self.comm.share(counts, "allgather")
        arrived = self._allgather(parts, counts)
        summed = []
        for name, holding in self.holdings.items():
            nodes = [(node, arrived[name, rank][i])
                     for rank in range(self.comm.size) for i, node in enumerate(self.nodes[rank])]
            total = fold(nodes, merge_rows)
            summed.append(Summed(holding, total.ids, total.rows, self.comm.rank == 0))
        return summed

    def _allgather(self, parts, counts):
        """Return arrived[name, rank] = the row gradients of the rank's nodes.

        N - 1 stages: in stage k everyone sends to the rank k after it. If all sent to all at once, dozens of streams
        would meet at each card, which must drop what its queue cannot hold.
        """
        arrived = {(name, self.comm.rank): [g for _, g in nodes] for name, nodes in parts.items()}
        for stage in ahead(self._begin(parts, counts, arrived, k) for k in range(1, self.comm.size)):
            for pending in stage:
                pending.wait()
        return arrived

    def _begin(self, parts, counts, arrived, k):
        """Begin stage k: this rank's nodes go to the rank k after it, those of the rank k before it come."""
        to, source = (self.comm.rank + k) % self.comm.size, (self.comm.rank - k) % self.comm.size
        leaving, arriving = [], []
        for j, (name, nodes) in enumerate(parts.items()):
            values = self.holdings[name].values
            empty = array_module(values).empty
            arrived[name, source] = [RowGradient(np.empty(n, np.int64), empty((n, values.shape[1]), values.dtype))
                                     for n in counts[source, :len(self.nodes[source]), j]]
            leaving += [(name, g) for _, g in nodes]
            arriving += [(name, g) for g in arrived[name, source]]
        return (self.comm.start([(to, g.ids, {name: g.ids.size}) for name, g in leaving],
                                [(source, g.ids, {name: g.ids.size}) for name, g in arriving], "allgather", "indices"),
                self.comm.start([(to, g.rows, {name: g.rows.size}) for name, g in leaving],
                                [(source, g.rows, {name: g.rows.size}) for name, g in arriving], "allgather", "rows"))

    def collect(self, name, slot, everyone, phase):
        return self.holdings[name].array(slot) if everyone or self.comm.rank == 0 else None

    def place(self, name, slot, read):
        self.holdings[name].array(slot)[...] = read(None)


class RowsAsDense(ReplicatedRows):
    """The road of sparse variables sent whole by allreduce (``--sparse-as-dense``). Collective to use.

    Beside the values travels one number a row, which counts who touched it: only touched rows are updated, as on any
    other road (DESIGN, I3; a decay of untouched rows would be another optimizer).
    """

    phase = "allreduce"

    def __init__(self, variables, schedule: Schedule, comm: Communicator, leaves: int, seed: int, xp=np, shared=True):
        super().__init__(variables, comm, leaves, seed, xp)
        self.layout = Layout.of(variables).with_marks()
        self.schedule, self.xp, self.shared = schedule, xp, shared

    def open(self):
        like = self.xp.empty(0, self.layout.dtype)
        self.allreduce = open_allreduce(self.schedule, self.comm, self.layout.size, like, "allreduce", self._whose,
                                        self.shared)
        self.arenas = [Arena(self.layout, flat=slot) for slot in self.allreduce.slots]
        # what adds nothing: x + -0.0 is x, while -0.0 + 0.0 is 0.0, no longer x. CuPy makes 0.0 of the number -0.0, and
        # of an array without axes
        self.nothing = self.xp.asarray(np.full(1, -0.0, self.layout.dtype))

    def _whose(self, start, stop):
        """Whose elements a message holds; the touched marks count as their variable's."""
        found: dict[str, int] = {}
        for name, elements in self.layout.overlaps(start, stop).items():
            variable = name.removesuffix(TOUCHED)
            found[variable] = found.get(variable, 0) + elements
        return found

    def push(self):
        parts = self.gradients.take()
        for arena in self.arenas:
            arena.flat[...] = self.nothing
        for name, nodes in parts.items():
            for arena, (_, gradient) in zip(self.arenas, nodes):
                ids = self.xp.asarray(gradient.ids)
                arena[name][ids] = gradient.rows
                arena[name + TOUCHED][ids] = 1
        total, summed = Arena(self.layout, flat=self.allreduce()), []
        self.comm.settle()
        for name, holding in self.holdings.items():
            ids = to_numpy(self.xp.flatnonzero(total[name + TOUCHED]))
            summed.append(Summed(holding, ids, take_rows(total[name], ids), self.comm.rank == 0))
        return summed
