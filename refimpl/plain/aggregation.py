"""Local aggregation: the ranks of a machine deal with the server as one, so that each row crosses the network once.

    pull    rank --- row numbers ---> aggregator --- their union ---> owner       within the machine, then across
            rank <------ rows ------- aggregator <------ rows ------- owner
    push    rank --- row gradients -> aggregator --- their sum -----> owner

The aggregator for an owner is the rank at the owner's place, on each machine: so all ranks take a share of the work,
and an owner is the aggregator of its own machine. This wraps a server (refimpl.plain.server), which knows nothing of
it: what an aggregator asks and pushes is that of one rank among others.

    mpirun -n 4 python -m refimpl.plain.aggregation
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Variable
from refimpl.plain.messages import Messages, exchange_nodes
from refimpl.plain.server import Server
from refimpl.plain.tree import add_up, cover, microbatches_of


class LocalAggregation:
    """A server as the ranks of machines of ``each`` consecutive ranks see it: the same methods, and the same answers.

    within: messages to the ranks of this rank's machine.
    """

    def __init__(self, server, each):
        self.server, self.each = server, each
        self.own, self.values, self.whole = server.own, server.values, server.whole
        rank, size = server.messages.rank, server.messages.size
        spans = [microbatches_of(r, size, server.microbatches) for r in range(size)]
        machines = [spans[first:first + each] for first in range(0, size, each)]
        self.within = Messages(server.messages.comm.Split(rank // each, rank))
        self.nodes_within = [cover(*span) for span in machines[rank // each]]
        self.nodes_of = [cover(spans[0][0], spans[-1][1]) for spans in machines for _ in spans]  # a machine's together

    def aggregator_of(self, rows):
        """Return the place, on this machine, of the rank that speaks to each row's owner."""
        return self.server.owner_of(rows) % self.each % self.within.size

    def to_aggregators(self, rows, array, phase):
        """Send each aggregator on this machine its part of ``array``; return what the machine's ranks sent."""
        place = self.aggregator_of(rows)
        return self.within.exchange([array[place == r] for r in range(self.within.size)], phase)

    def pull(self, rows):
        """Return rows (k,), sorted and unique, as their owners have them now: (k, d). Collective."""
        wanted = self.to_aggregators(rows, rows, "gather row numbers")
        union = np.unique(np.concatenate(wanted))
        found = self.server.pull(union)
        arrived = self.within.exchange([found[np.searchsorted(union, some)] for some in wanted], "scatter rows")
        pulled, place = np.empty((len(rows), *found.shape[1:]), found.dtype), self.aggregator_of(rows)
        for rank, some in enumerate(arrived):
            pulled[place == rank] = some
        return pulled

    def push(self, nodes):
        """Return (places, rows) as the server does; the machine's gradients are added up before they leave it."""
        nothing = RowGradient(self.own[:0], self.values[:0])
        parts = exchange_nodes(self.to_aggregators, nodes, self.nodes_within, nothing, "aggregate")
        joined = {node: add_up(*node, parts, merge_rows) for node in self.nodes_of[self.server.messages.rank]}
        return self.server.push(joined, self.nodes_of)


def main(comm=MPI.COMM_WORLD, each=2):
    """Pull and push on pretended machines of two ranks, with and without: what crosses between the machines."""
    variable = Variable("table", (4 + comm.size, 2), sparse=True)
    rows = np.array([0, 1, 2, 3, 4 + comm.rank])
    for name in ("each rank for itself", "local aggregation"):
        messages = Messages(comm, each)
        server = Server(messages, variable, 0, comm.size)
        server = LocalAggregation(server, each) if name == "local aggregation" else server
        pulled = server.pull(rows)
        gradient = RowGradient(rows, np.full_like(pulled, 4.0**comm.rank))
        places, total = server.push({(comm.rank, comm.rank + 1): gradient})
        digits = {int(server.own[i]): np.base_repr(int(row[0]), 4) for i, row in zip(places, total)}
        messages.tell(f"{name}: summed {digits}, to other machines {sum(messages.sent.values())} B")


if __name__ == "__main__":
    main()
