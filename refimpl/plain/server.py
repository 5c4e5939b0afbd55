"""The parameter server: the rows of a sparse variable are dealt out to the ranks, each of which owns some of them.

    pull    rank --- row numbers ---> owner          before the computation: the rows that the microbatches need
            rank <------ rows ------- owner
    push    rank --- row gradients -> owner          after it: the owner adds up, and updates its rows alone

Every rank is worker and server. A rank touches few rows (the fraction α), so this moves 4 α w (N - 1) / N bytes of a
variable of w bytes in and out of each rank; to send rows to everybody would take N / 2 times as many.

    mpirun -n 4 python -m refimpl.plain.server
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Variable
from refimpl.plain.messages import Messages, exchange_nodes
from refimpl.plain.tree import add_up, nodes_by_rank


class Server:
    """One sparse variable, of which this rank keeps ``values``: the rows ``own``, and no other.

    partitions: P; partition p holds rows p, p + P, p + 2 P, … and lies on rank p mod N. None: one for each rank.
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
        """Send each owner its part of ``array``, whose first axis belongs to ``rows``; return what came, by rank."""
        owner = self.owner_of(rows)
        return self.messages.exchange([array[owner == r] for r in range(self.messages.size)], phase)

    def pull(self, rows):
        """Return rows (k,), sorted and unique, as their owners have them now: (k, d). Collective."""
        wanted = self.to_owners(rows, rows, "pull row numbers")
        answers = [self.values[np.searchsorted(self.own, some)] for some in wanted]
        arrived = self.messages.exchange(answers, "pull rows")
        pulled, owner = np.empty((len(rows), *self.values.shape[1:]), self.values.dtype), self.owner_of(rows)
        for rank, some in enumerate(arrived):
            pulled[owner == rank] = some
        return pulled

    def push(self, nodes, nodes_of=None):
        """Return (places, rows): rows[i] is the gradient of values[places[i]], over all microbatches. Collective.

        nodes: {(start, stop): RowGradient} of this rank's microbatches, see ``tree.form_nodes``.
        nodes_of[r]: the names of the nodes that rank r brings; None: those of its own microbatches.
        """
        nodes_of = nodes_of or nodes_by_rank(self.messages.size, self.microbatches)
        nothing = RowGradient(self.own[:0], self.values[:0])
        parts = exchange_nodes(self.to_owners, nodes, nodes_of, nothing, "push")
        total = add_up(0, self.microbatches, parts, merge_rows)
        return np.searchsorted(self.own, total.ids), total.rows

    def whole(self, array):
        """Return on every rank the whole of an array that is dealt out as ``values`` are. Collective."""
        rows, parts = self.messages.gather(self.own, "whole"), self.messages.gather(array, "whole")
        return np.concatenate(parts)[np.argsort(np.concatenate(rows))]


def main(comm=MPI.COMM_WORLD):
    """Each rank pulls three rows, and pushes a gradient of 4**rank for each of them; owners do one SGD step."""
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
