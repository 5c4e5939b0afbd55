"""The paper's table as closed formulas: bytes of a step, sent and received, at the place that has most of them.

    N = M machines of G workers, each with a server; w bytes of a variable; α the part of its rows that one worker
    touches, α' that the workers of one machine touch together (α <= α' <= G α). Dense: α = α' = 1.

             one variable, at the owner's          m variables, spread over the servers: everywhere
             machine                               machine
    dense    server     2 w (M - 1)                4 w m (M - 1) / M
             allreduce  4 w (M - 1) / M            4 w m (M - 1) / M
    sparse   server     2 α' w (M - 1)             4 α' w m (M - 1) / M
             allgather  2 α w G² (M - 1)           2 α w m G² (M - 1)

This is PAPER.md's table for G = 1, where α' = α. A machine's bytes are those through its card: traffic inside is
free. Without local aggregation each worker deals with the servers itself: put G α for α', G for 1. A worker's bytes
are all that it sends and receives (the ledger's): see the functions.

Assumed: touched rows spread evenly over the servers, and the microbatches of a worker (with local aggregation: of a
machine) form one node of the microbatch tree; where they form c nodes, pushes and reductions carry c times as much.
cost.py has the exact bytes of any case. Source: PAPER.md, Bytes per machine and step; Parallax, table 1. All Local.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

INDEX = 8  # bytes of a row number
LEVELS = ("machine", "worker")


@dataclass(frozen=True)
class Setting:
    """M machines of G workers. local_aggregation: a machine's workers unite before the network (PAPER.md, Mechanisms).

    For an allreduce local aggregation means the hierarchical schedule; without, every worker takes part by itself
    (direct). An allgather has none.
    """

    machines: int
    workers: int = 1
    local_aggregation: bool = True

    @property
    def ranks(self) -> int:
        return self.machines * self.workers


class Bytes(NamedTuple):
    """Bytes of values and of row numbers; Fractions if what was given is whole."""

    values: Fraction | float
    indices: Fraction | float


@dataclass(frozen=True)
class Sparse:
    """A sparse variable's size: rows, bytes a row, α of a worker, and α' of a machine (None: one worker a machine)."""

    rows: int
    row_bytes: int
    alpha: Fraction | float
    alpha_machine: Fraction | float | None = None

    def bytes_of(self, formula) -> Bytes:
        """Return formula(w): once for w bytes of values, once for the row numbers that travel with them."""
        return Bytes(formula(self.rows * self.row_bytes), formula(self.rows * INDEX))


def dense_server_at_owner(w: int, setting: Setting, level: str = "machine"):
    """Bytes at the owner of one dense variable: pulled by all others and pushed by them; 2 w (M - 1) of a machine."""
    at_owner, _ = _edges(setting, level, 1, 1)
    return 2 * w * at_owner


def dense_server_spread(w: int, setting: Setting, variables: int, level: str = "machine"):
    """Bytes everywhere of m dense variables that are spread evenly over all servers: 4 w m (M - 1) / M of a machine."""
    _, everywhere = _edges(setting, level, 1, 1)
    return w * variables * Fraction(4, _places(setting, level)) * everywhere


def dense_allreduce(w: int, setting: Setting, variables: int = 1, level: str = "machine"):
    """Bytes everywhere of m dense variables by allreduce: 4 w m (N - 1) / N of a worker.

    Of a machine 4 w m (M - 1) / M by the hierarchical schedule, G times as much by the direct one.
    """
    if level == "worker":
        return w * variables * Fraction(4 * (setting.ranks - 1), setting.ranks)
    each = 1 if setting.local_aggregation else setting.workers
    return w * variables * each * Fraction(4 * (setting.machines - 1), setting.machines)


def sparse_server_at_owner(size: Sparse, setting: Setting, level: str = "machine") -> Bytes:
    """Bytes at the owner of one sparse variable in one partition: 2 α' w (M - 1) of a machine, and row numbers.

    Row numbers ask for rows (pull) and come with their gradients (push): as many as rows.
    """
    at_owner, _ = _edges(setting, level, size.alpha, _alpha_machine(size, setting))
    return size.bytes_of(lambda w: 2 * w * at_owner)


def sparse_server_spread(size: Sparse, setting: Setting, variables: int, level: str = "machine") -> Bytes:
    """Bytes everywhere of m sparse variables, or of one in m equal parts of this size, spread evenly over all servers.

    4 α' w m (M - 1) / M of a machine.
    """
    _, everywhere = _edges(setting, level, size.alpha, _alpha_machine(size, setting))
    return size.bytes_of(lambda w: w * variables * Fraction(4, _places(setting, level)) * everywhere)


def sparse_allgather(size: Sparse, setting: Setting, variables: int = 1, level: str = "machine") -> Bytes:
    """Bytes everywhere of m sparse variables by allgather: a worker's 2 α w m (N - 1), a machine's 2 α w m G² (M - 1).

    Every worker sends its rows to every other, whoever shares its machine: local aggregation changes nothing.
    """
    peers = setting.ranks - 1 if level == "worker" else setting.workers**2 * (setting.machines - 1)
    _places(setting, level)
    return size.bytes_of(lambda w: 2 * w * variables * peers * size.alpha)


def sparse_as_dense(size: Sparse, setting: Setting, variables: int = 1, level: str = "machine", mark: int = 4):
    """Bytes everywhere of m sparse variables sent whole by allreduce, each row with ``mark`` bytes more: w + mark R."""
    return dense_allreduce(size.rows * (size.row_bytes + mark), setting, variables, level)


def _edges(setting, level, alpha, alpha_machine):
    """Return what travels one way between workers and server of one variable, in w: (at the owner, everywhere).

    Without local aggregation N - 1 workers deal with the owner, α each. With it, M - 1 machines do, α' each, and in
    every machine G - 1 workers deal with the one of them that unites, α each.
    """
    _places(setting, level)
    machines, mates = setting.machines, setting.workers - 1
    across = (machines - 1) * (alpha_machine if setting.local_aggregation else setting.workers * alpha)
    if level == "machine":
        return across, across
    return across + mates * alpha, across + (machines if setting.local_aggregation else 1) * mates * alpha


def _places(setting, level) -> int:
    if level not in LEVELS:
        raise ValueError(f"no level {level!r}; there are {', '.join(LEVELS)}")
    return setting.machines if level == "machine" else setting.ranks


def _alpha_machine(size, setting):
    if size.alpha_machine is None and setting.local_aggregation and setting.workers > 1:
        raise ValueError(f"{setting.workers} workers a machine: say alpha_machine, what they touch together")
    return size.alpha if size.alpha_machine is None else size.alpha_machine
