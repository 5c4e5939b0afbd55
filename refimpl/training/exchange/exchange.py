"""The exchange of a step: the plan's roads, opened side by side and used as one."""

import numpy as np

from kernels.update import initial_state
from refimpl.collectives.units import size_name
from refimpl.plan import Plan
from refimpl.plan.buckets import buckets_of
from refimpl.server import ServedDense, ServedRows
from refimpl.strategies.allgather import ReplicatedRows, RowsAsDense
from refimpl.strategies.allreduce import ReplicatedDense
from refimpl.strategies.hot_rows import HotRows
from refimpl.training.device import memory_for
from refimpl.training.exchange.arriving import Wanted, wanted_rows
from refimpl.training.exchange.overlapped import OverlappedStep
from refimpl.training.exchange.sequential import StepInTurn
from refimpl.training.exchange.streams import open_streams
from refimpl.transport import Communicator

REMEDY = ("Reduce the sizes (--preset, --set), take an optimizer with less state (sgd keeps none), or let more ranks "
          "share the rows (--architecture hybrid or ps)")


def open_roads(variables, plan: Plan, comm: Communicator, seed: int, xp=np, shared: bool = True) -> list:
    """Return a road for each of the plan's buckets, in order, not opened yet. shared: see ``open_allreduce``. Local."""
    by_name = {v.name: v for v in variables}
    leaves, schedule, groups = plan.microbatches, plan.schedule(), plan.groups()
    owners = {p.variable: p.owners[0] for p in plan.placements if p.way == "server" and not p.sparse}
    hot = {p.variable for p in plan.placements if p.hot}

    def open_road(way, sparse, some):
        if hot.intersection(v.name for v in some):
            return HotRows(some, plan, schedule, comm, seed, xp, shared)
        if way == "server" and sparse:
            return ServedRows(some, {v.name: plan.partitioning(v) for v in some}, comm, leaves, seed, xp, groups)
        if way == "allgather":
            return ReplicatedRows(some, comm, leaves, seed, xp)
        if way == "as-dense":
            return RowsAsDense(some, schedule, comm, leaves, seed, xp, shared)
        if way == "server":
            return ServedDense(some, owners, comm, leaves, seed, xp, groups)
        return ReplicatedDense(some, schedule, comm, seed, xp, shared)

    roads: list = []
    for way, sparse, names in buckets_of(plan):
        some = [by_name[name] for name in names]
        with memory_for(_told(some), REMEDY):
            roads.append(open_road(way, sparse, some))
    return roads


def _told(variables) -> str:
    largest = max(variables, key=lambda v: v.nbytes)
    others = f", the largest of {len(variables)} variables that travel together" if len(variables) > 1 else ""
    return f"variable {largest.name!r} ({size_name(largest.nbytes)}{others})"


class Exchange:
    """All variables of a model, wherever they live. Local to make, then opened by all ranks together.

    Collective to use.
    """

    def __init__(self, variables, plan: Plan, comm: Communicator, seed: int, optimizer: str, xp=np,
                 shared: bool = True):
        self.plan, self.comm, self.variables, self.streams = plan, comm, list(variables), open_streams(xp)
        self.roads = open_roads(self.variables, plan, comm, seed, xp, shared)
        self.road_of = {variable.name: road for road in self.roads for variable in road.variables}
        for road in self.roads:
            for holding in road.holdings.values():
                if not holding.variable.statistic:
                    with memory_for(f"{optimizer}'s state of {_told([holding.variable])}", REMEDY):
                        holding.state = initial_state(optimizer, holding.values)

    def open(self):
        """Make what ranks can only make together, after every rank has made its exchange. Collective, once."""
        for road in self.roads:
            road.open()

    def wanted(self, needs) -> dict[str, Wanted]:
        """Return what to fetch of each sparse variable that lies elsewhere, for ``begin``. Local: may come early."""
        away = [v.name for v in self.variables if v.sparse and not self.road_of[v.name].local]
        return wanted_rows([ids for ids in needs.values() if ids is not None], away, self.plan.pull_rounds)

    def begin(self, needs, wanted, timeline, overlap: bool):
        """Begin the exchanges of a step, beside the computation if they shall overlap. Collective.

        needs: microbatch -> (name -> (k,) int64 sorted unique rows of each sparse variable), None for one without
        examples; all the rank's microbatches, in order.  wanted: see ``wanted``.
        """
        return (OverlappedStep if overlap else StepInTurn)(self, needs, wanted, timeline)

    def collect(self, name: str, slot: str | None = None, everyone: bool = False, phase: str = "collect"):
        """Return a whole variable (slot None) or state array on rank 0, or on everyone; None elsewhere."""
        return self.road_of[name].collect(name, slot, everyone, phase)

    def place(self, name: str, slot: str | None, read):
        """Set what this rank holds of an array from ``read(rows)``."""
        self.road_of[name].place(name, slot, read)

