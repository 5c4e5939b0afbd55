"""The road of sparse variables with hot rows: a replica of the first rows on every rank, the rest on the server.

Each part is a road that exists anyway; this one splits what it is given at row H and puts together what comes back. A
row's sum is formed within its part, in the microbatch tree's order: so no bit depends on H (DESIGN, I1).
"""

import numpy as np

from kernels import RowGradient, array_module
from kernels.rows import rows_between
from models import Variable
from refimpl.plan.hot_rows import rows_of, split_ids
from refimpl.plan.placement import Plan
from refimpl.server import ServedRows
from refimpl.strategies.allgather import ReplicatedRows, RowsAsDense


class HotRows:
    """Sparse variables on the server, of which some have hot rows. Collective to use; see ``server.road.Road``.

    cold: the road of the rows from H on.  replicas: the roads of rows below H, by allreduce or by allgather.
    holdings: (variable, "cold" or "hot") -> Holding.
    """

    phase, local = "push", False

    def __init__(self, variables: list[Variable], plan: Plan, schedule, comm, seed: int, xp=np, shared=True):
        self.variables, leaves, by_name = list(variables), plan.microbatches, {p.variable: p for p in plan.placements}
        self.hot = {v.name: by_name[v.name].hot for v in variables}
        cold = [rows_of(v, self.hot[v.name], v.shape[0]) for v in variables]
        self.cold = ServedRows(cold, {v.name: plan.partitioning(v) for v in variables}, comm, leaves, seed, xp,
                               plan.groups())
        ways = {way: [rows_of(v, 0, self.hot[v.name]) for v in variables
                      if self.hot[v.name] and by_name[v.name].hot_way == way] for way in ("as-dense", "allgather")}
        self.replicas: list[ReplicatedRows] = []
        if ways["as-dense"]:
            self.replicas.append(RowsAsDense(ways["as-dense"], schedule, comm, leaves, seed, xp, shared))
        if ways["allgather"]:
            self.replicas.append(ReplicatedRows(ways["allgather"], comm, leaves, seed, xp))
        self.replica_of = {v.name: road for road in self.replicas for v in road.variables}
        self.holdings = {(name, part): holding for part, roads in (("cold", [self.cold]), ("hot", self.replicas))
                         for road in roads for name, holding in road.holdings.items()}

    def open(self):
        for road in self.replicas:
            road.open()

    def dense(self):
        return {}

    def pull(self, needs, phase="pull"):
        split = {name: split_ids(needs[name], hot) for name, hot in self.hot.items() if name in needs}
        found = self.cold.pull({name: cold for name, (_, cold) in split.items()}, phase)
        for name, road in self.replica_of.items():
            if name in found:
                rows = road.pull({name: split[name][0]})[name]
                found[name] = array_module(rows).concatenate([rows, found[name]])
        return found

    def add(self, leaf, gradients):
        for road in self.replicas:
            road.add(leaf, gradients and {v.name: rows_between(gradients[v.name], 0, self.hot[v.name])
                                          for v in road.variables})
        self.cold.add(leaf, gradients and {v.name: self._rest(v, gradients[v.name]) for v in self.variables})

    def _rest(self, variable, gradient):
        """Return the part of a row gradient that goes to the server, counted from the first cold row."""
        hot = self.hot[variable.name]
        part = rows_between(gradient, hot, variable.shape[0])
        return RowGradient(part.ids - hot, part.rows)

    def held(self):
        return [gradient for road in (self.cold, *self.replicas) for gradient in road.held()]

    def push(self, arrived=None):
        summed = self.cold.push(arrived)
        for road in self.replicas:
            pieces = road.push()
            summed += pieces
            for piece in pieces if arrived is not None else ():
                arrived(piece)
        return summed

    def collect(self, name, slot, everyone, phase):
        rest = self.cold.collect(name, slot, everyone, phase)
        if rest is None or name not in self.replica_of:
            return rest
        rows = self.holdings[name, "hot"].array(slot)
        return array_module(rows).concatenate([rows, rest])

    def place(self, name, slot, read):
        hot = self.hot[name]
        self.cold.place(name, slot, lambda rows: read(range(rows.start + hot, rows.stop + hot, rows.step)))
        if name in self.replica_of:
            self.replica_of[name].place(name, slot, lambda rows: read(range(hot)))
