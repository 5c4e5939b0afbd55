"""The parameter server: each row of a sparse variable is kept by one rank, its owner.

    pull    rank --- row numbers ---> owner          before the computation: the rows that the microbatches need
            rank <------ rows ------- owner
    push    rank --- row gradients -> owner          after the computation: the owner adds up and updates its rows

Every rank is both a worker and an owner. A rank touches only a fraction α of the rows. For a variable of w bytes,
4 α w (N - 1) / N bytes go in and out of each rank. To send the rows to all ranks would take N / 2 times as many.

    mpirun -n 4 python -m refimpl.plain.strategies.server
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Variable
from refimpl.plain.adding.tree import add_up, nodes_by_rank
from refimpl.plain.messages import Messages, exchange_nodes


class Server:
    """One sparse variable. This rank keeps only the rows numbered ``own``; ``values`` holds them.

    partitions: P. Partition p holds rows p, p + P, p + 2 P, … and lies on rank p mod N. None: one for each rank.
    """

    def __init__(self, messages, variable, seed, microbatches, partitions=None):
        self.messages, self.microbatches = messages, microbatches
        self.partitions = partitions or messages.size
        rows = np.arange(variable.shape[0])
        self.own = rows[self.owner_of(rows) == messages.rank]
        self.values = variable.initial_value(seed)[self.own]

    def owner_of(self, rows):
        """Return the rank that keeps each of these rows."""
        return rows % self.partitions % self.messages.size

    def to_owners(self, rows, array, phase):
        """Send array[i], which belongs to row rows[i], to this row's owner; return what each rank sent here."""
        owner = self.owner_of(rows)
        return self.messages.exchange([array[owner == r] for r in range(self.messages.size)], phase)

    def pull(self, rows):
        """Return the current values (k, d) of rows (k,), which are sorted and unique. Collective."""
        wanted = self.to_owners(rows, rows, "pull row numbers")
        answers = [self.values[np.searchsorted(self.own, some)] for some in wanted]  # searchsorted: own[i] -> i
        arrived = self.messages.exchange(answers, "pull rows")
        pulled = np.empty((len(rows), *self.values.shape[1:]), self.values.dtype)
        for rank, some in enumerate(arrived):  # put each owner's rows where they were asked for
            pulled[self.owner_of(rows) == rank] = some
        return pulled

    def push(self, nodes, nodes_of=None):
        """Return (places, rows): rows[i] is the gradient of values[places[i]] over all microbatches. Collective.

        nodes: {(start, stop): RowGradient} of this rank's microbatches, see ``tree.form_nodes``.
        nodes_of[r]: the nodes that rank r sends. None: those that it forms from its own microbatches.
        """
        nodes_of = nodes_of or nodes_by_rank(self.messages.size, self.microbatches)
        nothing = RowGradient(self.own[:0], self.values[:0])
        parts = exchange_nodes(self.to_owners, nodes, nodes_of, nothing, "push")
        total = add_up(0, self.microbatches, parts, merge_rows)
        return np.searchsorted(self.own, total.ids), total.rows

    def whole(self, array):
        """Return on each rank the whole of an array that is divided among the ranks as ``values`` is. Collective."""
        rows, parts = self.messages.gather(self.own, "whole"), self.messages.gather(array, "whole")
        return np.concatenate(parts)[np.argsort(np.concatenate(rows))]


def main(comm=MPI.COMM_WORLD):
    """Each rank pulls its words' rows and pushes a gradient of 4**rank for each; the owners do one step of SGD."""
    messages = Messages(comm)
    server = Server(messages, Variable("table", (2 * comm.size, 2), sparse=True), 0, comm.size)
    rows = np.unique([0, 2 * comm.rank, 2 * comm.rank + 1])
    pulled = server.pull(rows)
    gradient = RowGradient(rows, np.full_like(pulled, 4.0**comm.rank))
    places, total = server.push({(comm.rank, comm.rank + 1): gradient})
    server.values[places] -= 0.1 * total
    digits = {int(server.own[i]): np.base_repr(int(row[0]), 4) for i, row in zip(places, total)}
    messages.tell(f"owns {server.own.tolist()}, pulled {rows.tolist()}, summed {digits}, sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
