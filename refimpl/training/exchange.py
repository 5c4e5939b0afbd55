"""The exchange of a step: the plan's roads, opened side by side and used as one."""

import numpy as np

from kernels import take_rows
from kernels.update import initial_state
from refimpl.collectives.wire import Wire
from refimpl.plan import Plan
from refimpl.server import ServedDense, ServedRows, Summed
from refimpl.training.replicated_dense import ReplicatedDense
from refimpl.training.replicated_rows import ReplicatedRows, RowsAsDense


def open_roads(variables, plan: Plan, wire: Wire, seed: int, xp=np, shared: bool = True) -> list:
    """Return a road for each way that the plan uses, not opened yet. shared: see ``open_allreduce``. Local."""
    by_name = {v.name: v for v in variables}
    leaves = plan.microbatches
    schedule = plan.schedule()

    def chosen(way, sparse):
        return [by_name[name] for name in plan.names(way, sparse)]

    roads: list = []
    if some := chosen("server", True):
        roads.append(ServedRows(some, {v.name: plan.partitioning(v) for v in some}, wire, leaves, seed, xp))
    if some := chosen("allgather", True):
        roads.append(ReplicatedRows(some, wire, leaves, seed, xp))
    if some := chosen("as-dense", True):
        roads.append(RowsAsDense(some, schedule, wire, leaves, seed, xp, shared))
    if some := chosen("server", False):
        owners = {p.variable: p.owners[0] for p in plan.placements if p.way == "server" and not p.sparse}
        roads.append(ServedDense(some, owners, wire, leaves, seed, xp))
    if some := chosen("allreduce", False):
        roads.append(ReplicatedDense(some, schedule, wire, seed, xp, shared))
    return roads


class Exchange:
    """All variables of a model, wherever they live. Local to make, then opened by all ranks together.

    Collective to use, except ``rows``, ``dense`` and ``add``.
    """

    def __init__(self, variables, plan: Plan, wire: Wire, seed: int, optimizer: str, xp=np,
                 shared: bool = True):
        self.plan, self.wire, self.variables = plan, wire, list(variables)
        self.roads = open_roads(self.variables, plan, wire, seed, xp, shared)
        self.pulled: dict[str, tuple] = {}  # sparse variable -> (ids, rows) that came last
        self.road_of = {variable.name: road for road in self.roads for variable in road.variables}
        for road in self.roads:
            for holding in road.holdings.values():
                if not holding.variable.statistic:
                    holding.state = initial_state(optimizer, holding.values)

    def open(self):
        """Make what ranks can only make together, after every rank has made its exchange. Collective, once."""
        for road in self.roads:
            road.open()

    def pull(self, needs, phase="pull"):
        """Fetch the values of a step. needs: name -> (k,) int64 sorted unique rows of each sparse variable."""
        self.pulled = {name: (needs[name], rows) for road in self.roads if not road.local
                       for name, rows in road.pull(needs, phase).items()}

    def dense(self) -> dict:
        """Return name -> value of every dense variable."""
        return {name: value for road in self.roads for name, value in road.dense().items()}

    def rows(self, needs) -> dict:
        """Return name -> rows of each sparse variable, of those pulled."""
        return {name: self._rows(name, ids) for name, ids in needs.items()}

    def _rows(self, name, ids):
        if self.road_of[name].local:
            return self.road_of[name].pull({name: ids})[name]
        pulled_ids, rows = self.pulled[name]
        return rows if len(ids) == len(pulled_ids) else take_rows(rows, np.searchsorted(pulled_ids, ids))

    def add(self, leaf: int, gradients):
        """Add a microbatch's gradients to every road's partial sums."""
        for road in self.roads:
            road.add(leaf, gradients)

    def push(self, timeline) -> list[Summed]:
        """Exchange and sum on every road; return what this rank holds of the sums."""
        summed = []
        for road in self.roads:
            with timeline.phase(road.phase):
                summed += road.push()
        return summed

    def collect(self, name: str, slot: str | None = None, everyone: bool = False, phase: str = "collect"):
        """Return a whole variable (slot None) or state array on rank 0, or on everyone; None elsewhere."""
        return self.road_of[name].collect(name, slot, everyone, phase)

    def place(self, name: str, slot: str | None, read):
        """Set what this rank holds of an array from ``read(rows)``."""
        self.road_of[name].place(name, slot, read)

