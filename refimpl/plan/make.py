"""Make the plan of an architecture: the strategy of each variable, and the owners."""

from dataclasses import replace

from refimpl.gradients import Layout
from refimpl.gradients.codecs import codec_of
from refimpl.plan.codecs import codecs_of
from refimpl.plan.partitions.balance import by_popularity
from refimpl.plan.plan import Placement, Plan
from refimpl.plan.strategy import Strategy, strategy_of
from refimpl.transport.machines import Machines

ARCHITECTURES = {
    "allreduce": ("allreduce", "allgather"),
    "ps": ("server", "server"),
    "hybrid": ("allreduce", "server"),
}
"""Architecture -> (strategy of dense variables, of sparse variables)."""

AS_DENSE = {"allreduce": "as-dense"}
"""Architecture -> the strategy of sparse variables with ``--sparse-as-dense``; the others refuse the option."""

SHARDED = {"allreduce": "reduce-scatter", "hybrid": "reduce-scatter"}
"""Architecture -> the strategy of dense variables with ``--shard-optimizer``; the others refuse the option."""


def make_plan(variables, architecture: str, ranks: int, microbatches: int, *, allreduce: str = "auto",
              partitions: int | None = None, scheme: str = "contiguous", sparse_as_dense: bool = False,
              shard_optimizer: bool = False, machines: Machines | None = None, local_aggregation: bool = True,
              strategies: dict[str, str] | None = None, popularity: dict | None = None,
              codec: dict[str, str] | None = None) -> Plan:
    """Return the plan of an architecture. partitions: P of each sparse variable; None: one for each rank. Local.

    sparse_as_dense, shard_optimizer: use the strategies of AS_DENSE and SHARDED.
    machines: the ranks of each machine; None: all ranks are on one.
    strategies: variable -> name of its strategy, as architecture "auto" has chosen them.
    popularity: sparse variable -> (rows,), how often each row is pulled in a step: see ``by_popularity``.
    codec: kind or variable -> how gradients are encoded, see ``codecs_of``; None: they are not.

    Each owned variable or partition goes to the rank that owns the fewest bytes so far, in the model's order
    (docs/paper.md, Mechanisms). Raises ValueError for an unknown architecture, or options that do not go together.
    """
    _check_variables(variables)
    if (names := strategies) is None:
        names = _names(variables, architecture, sparse_as_dense, shard_optimizer)
    chosen = {v.name: strategy_of(names[v.name], v.sparse) for v in variables}
    placed = place(variables, chosen, ranks, partitions, scheme)
    if popularity is not None:
        placed = by_popularity(variables, placed, popularity, ranks)
    placed = {name: encoded_by(codec, placed[name]) for name, codec in codecs_of(variables, codec or {}).items()}
    return Plan(architecture, ranks, microbatches, allreduce, tuple(Placement(*pair) for pair in placed.items()),
                machines or (tuple(range(ranks)),), local_aggregation)


def encoded_by(codec: str, strategy: Strategy) -> Strategy:
    """Return the strategy with this codec. Some codecs need a strategy of their own for dense variables. Local."""
    if (only := codec_of(codec).strategy) and not strategy.sparse:
        return strategy_of(only, False)(codec=codec)
    return replace(strategy, codec=codec)


def place(variables, chosen: dict[str, type[Strategy]], ranks: int, partitions: int | None, scheme: str) -> dict:
    """Return variable -> strategy with its owners. chosen: variable -> class. Local.

    Raises ValueError if there are more partitions than the largest partitioned variable has rows: some would be empty.
    """
    most = max((v.shape[0] for v in variables if chosen[v.name].partitioned), default=0)
    if partitions is not None and partitions > most > 0:
        raise ValueError(f"{partitions} partitions: the largest sparse variable on the server has {most} rows, "
                         f"give at most {most}")
    load, count = [0.0] * ranks, ranks if partitions is None else partitions
    return {v.name: chosen[v.name].place(v, load, count, scheme) for v in variables}


def with_partitions(plan: Plan, variables, partitions: int) -> Plan:
    """Return the plan with P partitions of each partitioned variable; owners as in ``make_plan``. Local."""
    dealt = place(variables, {name: type(strategy) for name, strategy in plan.strategies.items()}, plan.ranks,
                  partitions, "contiguous")
    return plan.replaced({v.name: plan.strategies[v.name].with_owners(dealt[v.name].owners)
                          for v in plan.partitioned(variables)})


def summed_by(variables, architecture: str, sparse_as_dense: bool, shard_optimizer: bool) -> Layout | None:
    """Return the layout of what an architecture sums by allreduce, or None. Local. Raises as ``make_plan``."""
    if architecture not in ARCHITECTURES:
        return None
    names = _names(variables, architecture, sparse_as_dense, shard_optimizer)
    placed = [v for v in variables if strategy_of(names[v.name], v.sparse).arena([v]) is not None]
    return Layout.of(placed) if placed else None


def check_sharded(architecture: str):
    """Raise ValueError for an architecture that ``--shard-optimizer`` cannot change. Local."""
    if architecture not in SHARDED:
        raise ValueError(f"--shard-optimizer works only with --architecture {' or '.join(SHARDED)}, not {architecture}:"
                         " leave it out, or say --no-shard-optimizer")


def _names(variables, architecture, sparse_as_dense, shard_optimizer) -> dict[str, str]:
    """Return variable -> strategy's name under an architecture. Raises ValueError for options that do not fit it."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"no architecture {architecture!r}; there are {', '.join(ARCHITECTURES)}")
    dense, sparse = ARCHITECTURES[architecture]
    if sparse_as_dense:
        if architecture not in AS_DENSE:
            raise ValueError(f"--sparse-as-dense works only with --architecture {' or '.join(AS_DENSE)}: leave it out")
        sparse = AS_DENSE[architecture]
    if shard_optimizer:
        check_sharded(architecture)
        dense = SHARDED[architecture]
    return {v.name: sparse if v.sparse else dense for v in variables}


def _check_variables(variables):
    """Raise ValueError for two variables of one name, or a variable that no strategy supports."""
    names = [v.name for v in variables]
    for v in variables:
        if names.count(v.name) > 1:
            raise ValueError(f"{names.count(v.name)} variables are called {v.name!r}: give each its own name")
        if v.sparse and v.statistic:
            raise ValueError(f"variable {v.name!r} is sparse and a statistic: an estimate needs all rows, "
                             "make it dense")
