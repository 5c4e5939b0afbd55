"""The plan: a strategy for each variable, and what they share. Plain data: it can be printed, compared and saved."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from msgspec import Struct

from refimpl.collectives.choose import by_machine, make_schedule
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.simulation.columns import to_predict
from refimpl.json_file import shaped
from refimpl.plan.mesh import Mesh
from refimpl.plan.strategy import Strategy, strategy_of
from refimpl.server import Aggregators, Clients, Partitioning
from refimpl.transport.machines import Machines

PLAN_FORMAT = 4
SYNCHRONOUS = "synchronous"


class _Kind(Struct):
    """The fields that decide which strategy class a placement in a file has."""

    variable: str
    sparse: bool
    strategy: str


@dataclass(frozen=True)
class Placement:
    """The name of a variable, and its strategy: how it is kept and exchanged, and what this costs."""

    variable: str
    strategy: Strategy

    @property
    def sparse(self) -> bool:
        """Whether the variable is sparse."""
        return self.strategy.sparse

    def to_json(self) -> dict:
        """Return plain data for plan.json. Local."""
        return {"variable": self.variable, "sparse": self.sparse, **self.strategy.to_json()}

    @classmethod
    def from_json(cls, data: dict, at: str = "$") -> "Placement":
        """Return the placement that ``to_json`` wrote. at: its place in the file, for errors. Raises ValueError."""
        kind = shaped(data, _Kind, at)
        said = {name: value for name, value in data.items() if name not in _Kind.__annotations__}
        try:
            return cls(kind.variable, shaped(said, strategy_of(kind.strategy, kind.sparse), at))
        except ValueError as problem:
            raise ValueError(f"{kind.variable}: {problem}") from problem


@dataclass(frozen=True)
class Plan:
    """A placement for every variable. Every rank derives the same plan, and the ranks check this.

    allreduce: algorithm of all allreduces.  machines: the ranks of each machine.
    local_aggregation: whether the ranks of a machine merge their pulls and pushes.
    buckets: variables that are exchanged together, in the order in which their exchanges begin; all variables of a
    bucket have one strategy. Empty: one bucket for each strategy.
    pull_rounds: in how many rounds a step's rows are pulled. A rank's i-th microbatch pulls the rows that are still
    missing in round min(i, rounds - 1).
    mesh: (G, K): G groups of K ranks, each of which keeps a part of the variables with the strategy columns; (): no
    mesh.
    consistency: how old the values may be with which a worker computes, see ``refimpl.training.consistency``.
    """

    architecture: str
    ranks: int
    microbatches: int
    allreduce: str
    placements: tuple[Placement, ...]
    machines: Machines | None = None
    local_aggregation: bool = True
    buckets: tuple[tuple[str, ...], ...] = ()
    pull_rounds: int = 1
    consistency: str = SYNCHRONOUS
    mesh: tuple[int, ...] = ()

    def schedule(self) -> Schedule:
        """Return the proved schedule of the plan's allreduces. Local."""
        machines = self.machines if by_machine(self.allreduce) else None
        return make_schedule(self.allreduce, self.ranks, self.microbatches, machines=machines)

    def predicted(self) -> tuple:
        """Return the schedule to count and time by, and whether it is canonical: see ``to_predict``. Local."""
        return to_predict(self.allreduce, self.ranks, self.microbatches,
                          self.machines if by_machine(self.allreduce) else None)

    @property
    def on_machines(self) -> Machines:
        """The ranks of each machine; if the plan names no machines, all ranks are on one."""
        return self.machines or (tuple(range(self.ranks)),)

    @property
    def on_mesh(self) -> Mesh:
        """The mesh; without one, every rank is a group. Raises ValueError for an invalid mesh in the plan."""
        if len(self.mesh) not in (0, 2):
            raise ValueError(f"plan: the mesh is {list(self.mesh)}: give two numbers, groups and ranks in each")
        return Mesh(*self.mesh) if self.mesh else Mesh(self.ranks, 1)

    def aggregators(self) -> Aggregators | None:
        """Return the aggregator of each rank; None if each rank sends to the owners itself. Local."""
        return Aggregators.of(self.on_machines) if self.local_aggregation else None

    def clients(self) -> Clients:
        """Return the ranks that send pulls and pushes to the owners. Local."""
        aggregators = self.aggregators()
        return (aggregators.clients(self.microbatches) if aggregators is not None
                else Clients.every_rank(self.ranks, self.microbatches))

    @cached_property
    def strategies(self) -> dict[str, Strategy]:
        """Variable -> its strategy, in the model's order."""
        return {p.variable: p.strategy for p in self.placements}

    def partitioning(self, variable) -> Partitioning:
        """Return the partitions of a variable. Local."""
        return self.strategies[variable.name].partitioning(variable, self.ranks)

    def partitioned(self, variables) -> list:
        """Return the variables that have partitions, in the model's order. Local."""
        return [v for v in variables if self.strategies[v.name].partitioned]

    def replaced(self, strategies: dict[str, Strategy]) -> "Plan":
        """Return the plan with other strategies for some variables. Local."""
        return replace(self, placements=tuple(Placement(p.variable, strategies.get(p.variable, p.strategy))
                                              for p in self.placements))

    def to_json(self) -> dict:
        """Return plain data for plan.json. Local."""
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return {"format": PLAN_FORMAT, **data, "placements": [p.to_json() for p in self.placements]}

    @classmethod
    def from_json(cls, data: dict) -> "Plan":
        """Return the plan that ``to_json`` wrote. Raises ValueError, which names a missing, unknown or wrong field."""
        try:
            head = dict(shaped(data, dict[str, Any]))
            if (version := head.pop("format", None)) != PLAN_FORMAT:
                raise ValueError(f"format {str(version)[:20]}: this version reads format {PLAN_FORMAT}")
            found = shaped({**head, "placements": []}, cls)
            placements = shaped(head.get("placements"), list, "$.placements")
            return replace(found, placements=tuple(Placement.from_json(each, f"$.placements[{number}]")
                                                   for number, each in enumerate(placements)))
        except ValueError as problem:
            raise ValueError(f"plan: {problem}; edit that, or make it again with python -m refimpl plan MODEL --ranks "
                             "N --output FILE") from problem
