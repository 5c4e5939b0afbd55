"""The table behind the hybrid: the bytes of a step that go in and out of the busiest machine.

    M: machines, each with L workers and one server.       w: bytes of a variable.
    α: the fraction of its rows that one worker touches.   α': the fraction that the workers of one machine touch
    together. If L = 1, then α' = α. For a dense variable α = α' = 1.

             one variable, at its owner's machine       m variables, spread over the servers, at every machine
    dense    server     2 w (M - 1)                     4 w m (M - 1) / M
             allreduce  4 w (M - 1) / M                 4 w m (M - 1) / M
    sparse   server     2 α' w (M - 1)                  4 α' w m (M - 1) / M
             allgather  2 α w L² (M - 1)                2 α w m L² (M - 1)

For a dense variable, server and allreduce send equally many bytes, counted over all machines. But with the server all
these bytes pass through its owner's machine. For sparse variables and L = 1, all machines together send M / 2 times as
many bytes by allgather as through the server. The server also sends fewer bytes than an allreduce of all rows, as long
as α < 1. That is why the hybrid uses both ways. If α is so near 1 that row numbers cost more than the server saves, the
hybrid sends a sparse variable whole, by allreduce (``goes_whole``). In a training without barriers the workers of a
machine share nothing: each pulls α w and pushes α w, as with L = 1.

The table assumes that touched rows are spread evenly over the servers, and that each worker (with local aggregation
each machine) pushes one sum of its gradients. Tests compare it with the exact bytes of plans (``refimpl.plan.cost``).
refimpl does not choose strategies by this table, but by the exact bytes and predicted seconds.
Source: docs/paper.md, Bytes.

    python -m refimpl.plain.strategies.cost_table
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

INDEX = 8  # bytes of a row number


@dataclass(frozen=True)
class Setting:
    """M machines of L workers. Without local aggregation every worker sends its own messages over the network."""

    machines: int
    workers: int = 1
    local_aggregation: bool = True

    @property
    def ranks(self):
        """N = M L."""
        return self.machines * self.workers

    def crossing(self, alpha=1, alpha_machine=1):
        """Return the part of w that a machine sends to an owner: α', or L α without local aggregation."""
        if not self.local_aggregation or self.workers == 1:
            return self.workers * alpha
        if alpha_machine is None:
            raise ValueError(f"{self.workers} workers share a machine: give alpha_machine, the fraction of the rows "
                             "that they touch together")
        return alpha_machine


class Bytes(NamedTuple):
    """Bytes of values, and of the row numbers sent with them. Fractions if all inputs are integers or fractions."""

    values: Fraction | float
    indices: Fraction | float


@dataclass(frozen=True)
class Sparse:
    """A sparse variable: rows, bytes of a row, α of a worker, and α' of a machine (not needed if L = 1)."""

    rows: int
    row_bytes: int
    alpha: Fraction | float
    alpha_machine: Fraction | float | None = None

    def bytes_of(self, times):
        """Return the bytes of all rows, and of their row numbers, multiplied by ``times``."""
        return Bytes(self.rows * self.row_bytes * times, self.rows * INDEX * times)


def dense_server_at_owner(w, setting):
    """One dense variable on the server: all other machines pull it and push its gradient."""
    return 2 * w * setting.crossing() * (setting.machines - 1)


def dense_server_spread(w, setting, variables):
    """m dense variables on the server. Half of a machine's bytes come from its workers, half from its server."""
    return 4 * w * variables * setting.crossing() * Fraction(setting.machines - 1, setting.machines)


def dense_allreduce(w, setting, variables=1):
    """m dense variables by allreduce. With local aggregation the schedule is hierarchical."""
    return 4 * w * variables * setting.crossing() * Fraction(setting.machines - 1, setting.machines)


def sparse_server_at_owner(size, setting):
    """One sparse variable, one partition, on the server: row numbers go with each pull and with each push."""
    return size.bytes_of(2 * setting.crossing(size.alpha, size.alpha_machine) * (setting.machines - 1))


def sparse_server_spread(size, setting, variables):
    """m sparse variables of this size on the server, or one variable in m such partitions."""
    times = 4 * variables * setting.crossing(size.alpha, size.alpha_machine)
    return size.bytes_of(times * Fraction(setting.machines - 1, setting.machines))


def sparse_allgather(size, setting, variables=1):
    """m sparse variables by allgather: every worker sends its rows to every worker of the other machines."""
    return size.bytes_of(2 * variables * size.alpha * setting.workers**2 * (setting.machines - 1))


def sparse_as_dense(size, setting, variables=1, mark=4):
    """m sparse variables sent whole by allreduce, each row with ``mark`` bytes more that say whether it is touched."""
    return dense_allreduce(size.rows * (size.row_bytes + mark), setting, variables)


def goes_whole(size, setting):
    """Return whether the hybrid sends a sparse variable whole: if this takes no more bytes than its rows."""
    return 0 < sparse_as_dense(size, setting) <= sum(sparse_server_spread(size, setting, 1))


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
