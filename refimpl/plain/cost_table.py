"""The table behind the hybrid: bytes of a step, in and out, at the machine that has most of them.

    M machines of L workers, each with a server; w bytes of a variable; α: the part of its rows that a worker touches,
    α': that the workers of a machine touch together. With L = 1 α' = α. Dense: α = α' = 1.

             one variable, at its owner's machine       m variables, spread over the servers: everywhere
    dense    server     2 w (M - 1)                     4 w m (M - 1) / M
             allreduce  4 w (M - 1) / M                 4 w m (M - 1) / M
    sparse   server     2 α' w (M - 1)                  4 α' w m (M - 1) / M
             allgather  2 α w L² (M - 1)                2 α w m L² (M - 1)

Dense: as many bytes, but the server has a hot spot. Sparse: for L = 1 the server moves M / 2 times less than allgather,
and less than sending all rows by allreduce as long as α < 1. Hence the hybrid. Without barriers each worker by itself
moves α w down and α w up: L = 1. Assumed: touched rows are spread evenly over the servers, and a worker's microbatches
(with local aggregation a machine's) form one node of the tree. Source: docs/paper.md, Bytes.

The table is there to be read, and is the oracle to which tests hold the exact bytes of plans (``refimpl.plan.cost``).
It decides nothing: the choice between strategies uses those exact bytes, and predicted seconds.

    python -m refimpl.plain.cost_table
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

INDEX = 8  # bytes of a row number


@dataclass(frozen=True)
class Setting:
    """M machines of L workers. Without local aggregation every worker deals with the network by itself."""

    machines: int
    workers: int = 1
    local_aggregation: bool = True

    @property
    def ranks(self):
        """N = M L."""
        return self.machines * self.workers

    def crossing(self, alpha=1, alpha_machine=1):
        """Return what a machine exchanges with an owner, one way, in w: α'; without local aggregation L α."""
        if not self.local_aggregation or self.workers == 1:
            return self.workers * alpha
        if alpha_machine is None:
            raise ValueError(f"{self.workers} workers a machine: say alpha_machine, what they touch together")
        return alpha_machine


class Bytes(NamedTuple):
    """Bytes of values, and of the row numbers that travel with them. Fractions, if what was given is whole."""

    values: Fraction | float
    indices: Fraction | float


@dataclass(frozen=True)
class Sparse:
    """A sparse variable: rows, bytes a row, α of a worker, α' of a machine (not needed for one worker a machine)."""

    rows: int
    row_bytes: int
    alpha: Fraction | float
    alpha_machine: Fraction | float | None = None

    def bytes_of(self, times):
        """Return the bytes of all rows, and of their numbers, so many times."""
        return Bytes(self.rows * self.row_bytes * times, self.rows * INDEX * times)


def dense_server_at_owner(w, setting):
    """One dense variable by the server: all others pull it, and push its gradient."""
    return 2 * w * setting.crossing() * (setting.machines - 1)


def dense_server_spread(w, setting, variables):
    """m dense variables by the server: each machine is busy as a worker, and as much as a server."""
    return 4 * w * variables * setting.crossing() * Fraction(setting.machines - 1, setting.machines)


def dense_allreduce(w, setting, variables=1):
    """m dense variables by allreduce; with local aggregation by the hierarchical schedule."""
    return 4 * w * variables * setting.crossing() * Fraction(setting.machines - 1, setting.machines)


def sparse_server_at_owner(size, setting):
    """One sparse variable in one partition by the server: row numbers ask for rows, and come with their gradients."""
    return size.bytes_of(2 * setting.crossing(size.alpha, size.alpha_machine) * (setting.machines - 1))


def sparse_server_spread(size, setting, variables):
    """m sparse variables of this size by the server, or one in m such partitions."""
    times = 4 * variables * setting.crossing(size.alpha, size.alpha_machine)
    return size.bytes_of(times * Fraction(setting.machines - 1, setting.machines))


def sparse_allgather(size, setting, variables=1):
    """m sparse variables by allgather: every worker sends its rows to every other, whoever shares its machine."""
    return size.bytes_of(2 * variables * size.alpha * setting.workers**2 * (setting.machines - 1))


def sparse_as_dense(size, setting, variables=1, mark=4):
    """m sparse variables sent whole by allreduce, each row with ``mark`` bytes more that say whether it is touched."""
    return dense_allreduce(size.rows * (size.row_bytes + mark), setting, variables)


def main(m=8):
    """Print the right column for machines of one worker."""
    print(f"MB in and out of each of M machines; {m} variables of 1 MB, spread over the servers; α = 0.02")
    print(" M   dense: server, allreduce     sparse: server, allgather")
    for setting in map(Setting, (2, 4, 8, 16, 48)):
        sparse = [way(Sparse(1, 1, 0.02), setting, m).values for way in (sparse_server_spread, sparse_allgather)]
        row = dense_server_spread(1, setting, m), dense_allreduce(1, setting, m), *sparse
        print(f"{setting.machines:2}" + "".join(f"{float(megabytes):14.3f}" for megabytes in row))


if __name__ == "__main__":
    main()
