"""Variables of which every rank keeps a replica: dense gradients go by allreduce, row gradients by allgather.

Every rank computes the same sum and does the same update, so the replicas never differ by a bit. For row gradients
2 α w (N - 1) bytes go in and out of each rank. That is N / 2 times as many as with the parameter server.

    mpirun -n 4 python -m refimpl.plain.strategies.replicas
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Variable
from refimpl.plain.adding.tree import add_up, nodes_by_rank
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.messages import Messages, exchange_nodes


class Replica:
    """One dense variable; gradients are summed in tree order (``allreduce``)."""

    def __init__(self, messages, variable, seed, microbatches):
        self.messages, self.microbatches = messages, microbatches
        self.values = variable.initial_value(seed)

    def pull(self):
        """Return the whole value, which this rank has."""
        return self.values

    def push(self, nodes):
        """Return (None for row numbers, the summed gradient). nodes: {(start, stop): array}. Collective."""
        vectors = np.array(list(nodes.values()), self.values.dtype).reshape(len(nodes), self.values.size)
        return None, allreduce(self.messages, vectors, self.microbatches).reshape(self.values.shape)

    def whole(self, array):
        """Return the array itself: every rank has all of it."""
        return array


class GatheredRows(Replica):
    """One sparse variable; each rank sends its row gradients to all ranks (allgather)."""

    def pull(self, rows):
        """Return rows (k,) of the replica: (k, d)."""
        return self.values[rows]

    def push(self, nodes):
        """Return (row numbers, rows) of the row gradient summed over all microbatches. Collective."""
        nothing = RowGradient(np.empty(0, np.int64), self.values[:0])
        nodes_of = nodes_by_rank(self.messages.size, self.microbatches)

        def to_all(ids, array, phase):
            return self.messages.gather(array, phase)

        parts = exchange_nodes(to_all, nodes, nodes_of, nothing, "allgather")
        total = add_up(0, self.microbatches, parts, merge_rows)
        return total.ids, total.rows


def main(comm=MPI.COMM_WORLD):
    """The example of refimpl.plain.strategies.server. Here each rank receives every row, so the bytes grow with N."""
    messages = Messages(comm)
    table = GatheredRows(messages, Variable("table", (2 * comm.size, 2), sparse=True), 0, comm.size)
    rows = np.unique([0, 2 * comm.rank, 2 * comm.rank + 1])
    gradient = RowGradient(rows, np.full_like(table.pull(rows), 4.0**comm.rank))
    places, total = table.push({(comm.rank, comm.rank + 1): gradient})
    digits = {int(i): np.base_repr(int(row[0]), 4) for i, row in zip(places, total)}
    messages.tell(f"touched {rows.tolist()}, summed {digits}, sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
