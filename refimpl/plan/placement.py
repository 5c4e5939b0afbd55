"""From an architecture to a placement for each variable: plain data that can be printed, compared and saved."""

from dataclasses import asdict, dataclass

from refimpl.collectives.choose import make_schedule
from refimpl.collectives.schedule import Schedule
from refimpl.plan.balance import by_popularity, row_bytes
from refimpl.server.groups import Groups
from refimpl.server.partition import Partitioning
from refimpl.transport.machines import Machines

ARCHITECTURES = {
    "allreduce": ("allreduce", "allgather"),
    "ps": ("server", "server"),
    "hybrid": ("allreduce", "server"),
}
"""Architecture -> (way of dense variables, way of sparse variables)."""

WAYS = {False: ("allreduce", "server"), True: ("server", "allgather", "as-dense")}
"""sparse -> the ways that a variable of that kind can go."""

WAYS_OF_HOT = ("as-dense", "allgather")
"""The ways that the hot rows of a variable on the server can go."""

PLAN_FORMAT = 3


@dataclass(frozen=True)
class Placement:
    """How one variable travels.

    way: "allreduce" (dense: the schedule's), "allgather" (sparse: rows to all), "as-dense" (sparse: whole, by
    allreduce) or "server".  owners: the rank of each partition on the server (a dense variable is one partition).
    hot: so many first rows of a sparse variable on the server are replicated and go ``hot_way`` (WAYS_OF_HOT); the
    partitions are of the rest.
    """

    variable: str
    sparse: bool
    way: str
    owners: tuple[int, ...] = ()
    scheme: str = "contiguous"
    hot: int = 0
    hot_way: str = "as-dense"

    def __post_init__(self):
        if self.hot < 0 or self.hot and not (self.sparse and self.way == "server"):
            raise ValueError(f"{self.variable!r} has {self.hot} hot rows: only a sparse variable on the server has any")
        if self.hot_way not in WAYS_OF_HOT:
            ways = " or ".join(WAYS_OF_HOT)
            raise ValueError(f"hot rows of {self.variable!r} cannot go {self.hot_way!r}; give {ways}")


@dataclass(frozen=True)
class Plan:
    """A placement for every variable. Every rank derives the same plan, and checks that it did.

    allreduce: algorithm of the dense gradients.  machines: the ranks of each machine.
    local_aggregation: row gradients of a machine's ranks are merged, and their pulls united, before they leave it.
    buckets: variables that are exchanged together, each of one way and kind, in the order in which their exchange
    begins; empty: one bucket for each way and kind.
    pull_rounds: in how many rounds a step's rows are pulled: a rank's i-th microbatch asks in round min(i, rounds - 1)
    for those rows that none before it has.
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

    def schedule(self) -> Schedule:
        """Return the proved schedule of the plan's allreduces."""
        machines = self.machines if self.allreduce == "hierarchical" else None
        return make_schedule(self.allreduce, self.ranks, self.microbatches, machines=machines)

    @property
    def on_machines(self) -> Machines:
        """The ranks of each machine; all on one where the plan does not say."""
        return self.machines or (tuple(range(self.ranks)),)

    def groups(self) -> Groups:
        """Return the ranks that unite pulls and add up row gradients: a machine's, or each by itself."""
        return Groups.of_machines(self.on_machines) if self.local_aggregation else Groups.alone(self.ranks)

    def names(self, way: str, sparse: bool) -> list[str]:
        """Return the variables of one kind that go one way, in the model's order."""
        return [p.variable for p in self.placements if p.way == way and p.sparse == sparse]

    def placement(self, name: str) -> Placement:
        """Return the placement of a variable."""
        return next(p for p in self.placements if p.variable == name)

    def partitioning(self, variable) -> Partitioning:
        """Return the partitions of a sparse variable on the server, hot rows left out.

        Raises ValueError if the variable has fewer rows than are hot.
        """
        placement, rows = self.placement(variable.name), variable.shape[0]
        if placement.hot > rows:
            raise ValueError(f"{placement.hot} hot rows of {variable.name!r}, which has {rows}; plan fewer")
        return Partitioning(rows - placement.hot, placement.owners, self.ranks, placement.scheme)

    def to_json(self) -> dict:
        """Return plain data for plan.json."""
        return {"format": PLAN_FORMAT, **asdict(self)}

    @classmethod
    def from_json(cls, data: dict) -> "Plan":
        """Read what ``to_json`` wrote. Raises ValueError for another format version."""
        data = dict(data)
        version = data.pop("format", None)
        if version != PLAN_FORMAT:
            raise ValueError(f"plan of format {version}: this version reads format {PLAN_FORMAT}; make the plan again")
        placements = tuple(Placement(**{**p, "owners": tuple(p["owners"])}) for p in data.pop("placements"))
        machines, buckets = data.pop("machines"), tuple(map(tuple, data.pop("buckets")))
        return cls(placements=placements, machines=machines and tuple(map(tuple, machines)), buckets=buckets, **data)


def make_plan(variables, architecture: str, ranks: int, microbatches: int, *, allreduce: str = "auto",
              partitions: int | None = None, scheme: str = "contiguous", sparse_as_dense: bool = False,
              machines: Machines | None = None, local_aggregation: bool = True,
              ways: dict[str, str] | None = None, popularity: dict | None = None) -> Plan:
    """Return the plan of an architecture. partitions: P of each sparse variable; None: one for each rank. Local.

    machines: the ranks of each machine; None: all on one.
    ways: variable -> the way that it goes, of WAYS of its kind: what architecture "auto" chose, which has no other.

    popularity: sparse variable -> (rows,), how often each row is pulled in a step: see ``by_popularity``.

    On the server a dense variable goes whole to the rank with the fewest bytes so far, in the model's order (PAPER.md,
    Mechanisms), partitions as ``Partitioning.dealt`` says.
    Raises ValueError for an unknown architecture or a combination that means nothing.
    """
    _check_variables(variables)
    ways = _ways(variables, architecture, sparse_as_dense) if ways is None else ways
    load, placements, count = [0] * ranks, [], _count(variables, ways, ranks, partitions)
    for variable in variables:
        owners: tuple[int, ...] = ()
        if variable.sparse and ways[variable.name] == "server":
            parts = Partitioning.dealt(variable.shape[0], count, load, scheme)
            owners = parts.owners
            for partition, owner in enumerate(owners):
                load[owner] += row_bytes(variable) * len(parts.rows_of_partition(partition))
        elif ways[variable.name] == "server":
            owners = (load.index(min(load)),)
            load[owners[0]] += variable.nbytes
        placements.append(Placement(variable.name, variable.sparse, ways[variable.name], owners, scheme))
    if popularity is not None:
        placements = by_popularity(variables, placements, popularity, ranks)
    return Plan(architecture, ranks, microbatches, allreduce, tuple(placements), machines or (tuple(range(ranks)),),
                local_aggregation)


def _count(variables, ways, ranks, partitions) -> int:
    """Return P. Raises ValueError for more than the largest served variable has rows: the rest would be empty."""
    most = max((v.shape[0] for v in variables if v.sparse and ways[v.name] == "server"), default=0)
    if partitions is not None and partitions > most > 0:
        raise ValueError(f"{partitions} partitions: the largest sparse variable on the server has {most} rows, "
                         f"give at most {most}")
    return ranks if partitions is None else partitions


def _ways(variables, architecture, sparse_as_dense) -> dict[str, str]:
    """Return variable -> way under an architecture. Raises ValueError for one that means nothing."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"no architecture {architecture!r}; there are {', '.join(ARCHITECTURES)}")
    dense_way, sparse_way = ARCHITECTURES[architecture]
    if sparse_as_dense:
        if sparse_way != "allgather":
            raise ValueError(f"--sparse-as-dense goes with --architecture allreduce, not {architecture}")
        sparse_way = "as-dense"
    return {v.name: sparse_way if v.sparse else dense_way for v in variables}


def _check_variables(variables):
    """Raise ValueError for variables that cannot be told apart, or that no road could carry. Local."""
    names = [v.name for v in variables]
    for v in variables:
        if names.count(v.name) > 1:
            raise ValueError(f"{names.count(v.name)} variables are called {v.name!r}: give each its own name")
        if v.sparse and v.statistic:
            raise ValueError(f"variable {v.name!r} is sparse and a statistic: an estimate needs all rows, "
                             "make it dense")
