"""Local aggregation: the ranks of a machine merge their pulls and pushes, so that each row crosses the network once.

    pull    rank --- row numbers ---> aggregator --- their union ---> owner       within the machine, then across
            rank <------ rows ------- aggregator <------ rows ------- owner
    push    rank --- row gradients -> aggregator --- their sum -----> owner

Each rank of a machine is the aggregator for some owners. The first rank of each machine is the aggregator for the first
ranks of all machines, the second rank for the second ranks, and so on. So all ranks of a machine share the work. If
an owner is on their own machine, ranks send to it directly, without an aggregator. The class below wraps a server
(refimpl.plain.strategies.server). The server treats an aggregator as it treats any rank that pulls and pushes.

    mpirun -n 4 python -m refimpl.plain.strategies.aggregation
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Variable
from refimpl.plain.adding.tree import add_up, cover, microbatches_of
from refimpl.plain.messages import Messages, exchange_nodes
from refimpl.plain.strategies.server import Server


class LocalAggregation:
    """A server with local aggregation on machines of ``each`` consecutive ranks: the same methods, the same answers.

    within: messages between the ranks of this rank's machine.
    """

    def __init__(self, server, each):
        self.server, self.each = server, each
        self.own, self.values, self.whole = server.own, server.values, server.whole
        rank, size = server.messages.rank, server.messages.size
        spans = [microbatches_of(r, size, server.microbatches) for r in range(size)]  # (start, stop) of each rank
        machines = [spans[first:first + each] for first in range(0, size, each)]  # those of each machine's ranks
        self.within = Messages(server.messages.comm.Split(rank // each, rank))
        self.nodes_within = [cover(*span) for span in machines[rank // each]]
        # an aggregator adds up its rows over its whole machine, so all ranks of a machine send the same nodes
        self.nodes_of = [cover(spans[0][0], spans[-1][1]) for spans in machines for _ in spans]

    def aggregator_of(self, rows):
        """Return for each row the place, on this machine, of the aggregator for the row's owner."""
        place = self.server.owner_of(rows) % self.each  # the place of the owner on its machine
        return place % self.within.size  # the last machine may have fewer ranks than ``each``

    def to_aggregators(self, rows, array, phase):
        """Send each aggregator on this machine its part of ``array``; return what the machine's ranks sent here."""
        place = self.aggregator_of(rows)
        return self.within.exchange([array[place == r] for r in range(self.within.size)], phase)

    def pull(self, rows):
        """Return the current values (k, d) of rows (k,), which are sorted and unique. Collective."""
        wanted = self.to_aggregators(rows, rows, "gather row numbers")
        union = np.unique(np.concatenate(wanted))
        found = self.server.pull(union)
        arrived = self.within.exchange([found[np.searchsorted(union, some)] for some in wanted], "scatter rows")
        pulled, place = np.empty((len(rows), *found.shape[1:]), found.dtype), self.aggregator_of(rows)
        for rank, some in enumerate(arrived):
            pulled[place == rank] = some
        return pulled

    def push(self, nodes):
        """Return (places, rows) as the server does. A machine's gradients are added up before they leave it."""
        nothing = RowGradient(self.own[:0], self.values[:0])
        parts = exchange_nodes(self.to_aggregators, nodes, self.nodes_within, nothing, "aggregate")
        joined = {node: add_up(*node, parts, merge_rows) for node in self.nodes_of[self.server.messages.rank]}
        return self.server.push(joined, self.nodes_of)


def main(comm=MPI.COMM_WORLD, each=2):
    """Pull and push on simulated machines of two ranks. Print the bytes between machines without and with merging."""
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
