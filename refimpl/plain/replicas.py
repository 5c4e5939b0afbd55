"""Variables of which every rank keeps a replica: dense ones summed by allreduce, row gradients sent to everybody.

Every rank ends with the same sum and does the same update: replicas never differ by a bit. For rows that takes
2 α w (N - 1) bytes in and out of each rank, N / 2 times what the server moves.

    mpirun -n 4 python -m refimpl.plain.replicas
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Uniform, Variable
from refimpl.plain.allreduce import allreduce
from refimpl.plain.messages import Messages, exchange_nodes
from refimpl.plain.tree import add_up, cover, microbatches_of


class Replica:
    """One dense variable; gradients are summed by the canonical allreduce."""

    def __init__(self, messages, variable, seed, microbatches):
        self.messages, self.microbatches = messages, microbatches
        self.values = variable.initial_value(seed)

    def pull(self):
        """Return the whole value: it is here."""
        return self.values

    def push(self, nodes):
        """Return (None, the gradient summed over all microbatches). nodes: {(start, stop): array}. Collective."""
        flat = {node: gradient.reshape(-1) for node, gradient in nodes.items()}
        return None, allreduce(self.messages, flat, self.microbatches).reshape(self.values.shape)

    def whole(self):
        """Return the whole variable."""
        return self.values


class GatheredRows(Replica):
    """One sparse variable; row gradients of all ranks go to all ranks (allgather)."""

    def pull(self, rows):
        """Return rows (k,) of the replica: (k, d)."""
        return self.values[rows]

    def to_all(self, ids, array, phase):
        """Send ``array`` to every rank; return everybody's."""
        return self.messages.gather(array, phase)

    def push(self, nodes):
        """Return (ids, rows): the row gradient summed over all microbatches. nodes: {(start, stop): RowGradient}."""
        size, nothing = self.messages.size, RowGradient(np.empty(0, np.int64), self.values[:0])
        nodes_of = [cover(*microbatches_of(r, size, self.microbatches)) for r in range(size)]
        parts = exchange_nodes(self.to_all, nodes, nodes_of, nothing, "allgather")
        total = add_up(0, self.microbatches, parts, merge_rows)
        return total.ids, total.rows


def main(comm=MPI.COMM_WORLD):
    messages = Messages(comm)
    table = GatheredRows(messages, Variable("table", (12, 2), sparse=True, initial=Uniform(1.0)), 0, comm.size)
    rows = np.unique([0, 2 * comm.rank, 2 * comm.rank + 1])
    ids, total = table.push({(comm.rank, comm.rank + 1): RowGradient(rows, np.full((len(rows), 2), 4.0**comm.rank))})
    digits = {int(i): np.base_repr(int(row[0]), 4) for i, row in zip(ids, total)}
    messages.tell(f"touched {rows.tolist()}, summed {digits}, sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
