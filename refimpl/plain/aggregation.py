"""Local aggregation: the ranks of a machine deal with the server as one, so that each row crosses the network once.

    pull    rank --- row numbers ---> aggregator --- their union ---> owner       within the machine, then across
            rank <------ rows ------- aggregator <------ rows ------- owner
    push    rank --- row gradients -> aggregator --- their sum -----> owner

The aggregator of an owner is the machine's rank at the same place: so all take a share of the work. It wraps a server
(refimpl.plain.server), which knows nothing of it: what an aggregator asks and pushes is that of one rank among others.

    mpirun -n 4 python -m refimpl.plain.aggregation
"""

import numpy as np
from mpi4py import MPI

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Uniform, Variable
from refimpl.plain.messages import Messages, exchange_nodes
from refimpl.plain.server import Server
from refimpl.plain.tree import add_up, cover, microbatches_of


class LocalAggregation:
    """A server as the ranks of machines of ``each`` consecutive ranks see it: the same methods, and the same answers.

    within: messages to the ranks of this rank's machine.
    """

    def __init__(self, server, each):
        self.server, self.each, across = server, each, server.messages
        first = across.rank // each * each
        self.within = Messages(across.comm.Split(first, across.rank))
        self.own, self.values, self.whole = server.own, server.values, server.whole
        self.nodes_of_peers = server.nodes_of[first:first + self.within.size]
        self.nodes_of = [self.nodes_of_machine(rank // each * each) for rank in range(across.size)]

    def nodes_of_machine(self, first):
        """Return the nodes of the tree that a machine's ranks can form together."""
        size, last = self.server.messages.size, min(first + self.each, self.server.messages.size) - 1
        start, _ = microbatches_of(first, size, self.server.microbatches)
        _, stop = microbatches_of(last, size, self.server.microbatches)
        return cover(start, stop)

    def aggregator_of(self, rows):
        """Return the place, on this machine, of the rank that speaks to each row's owner."""
        return self.server.owner_of(rows) % self.each % self.within.size

    def to_aggregators(self, rows, array, phase):
        """Send each aggregator on this machine its part of ``array``; return what the machine's ranks sent."""
        place = self.aggregator_of(rows)
        return self.within.exchange([array[place == r] for r in range(self.within.size)], phase)

    def pull(self, rows):
        """Return rows (k,), sorted and unique, as their owners have them now: (k, d). Collective."""
        place = self.aggregator_of(rows)
        wanted = self.to_aggregators(rows, rows, "gather row numbers")
        union = np.unique(np.concatenate(wanted))
        found = self.server.pull(union)
        arrived = self.within.exchange([found[np.searchsorted(union, some)] for some in wanted], "scatter rows")
        pulled = np.empty((len(rows), *found.shape[1:]), found.dtype)
        for rank, some in enumerate(arrived):
            pulled[place == rank] = some
        return pulled

    def push(self, nodes):
        """Return (ids, rows) as the server does; the machine's gradients are added up before they leave it."""
        nothing = RowGradient(self.own[:0], self.values[:0])
        parts = exchange_nodes(self.to_aggregators, nodes, self.nodes_of_peers, nothing, "aggregate")
        joined = self.nodes_of[self.server.messages.rank]
        return self.server.push({node: add_up(*node, parts, merge_rows) for node in joined}, self.nodes_of)


def main(comm=MPI.COMM_WORLD, each=2):
    """As ``server.main``, on pretended machines of two ranks: what crosses between them."""
    variable = Variable("table", (12, 2), sparse=True, initial=Uniform(1.0))
    rows = np.unique([0, 1, 2, 3, 4 + comm.rank])
    for name in ("each rank for itself", "local aggregation"):
        messages = Messages(comm, each)
        server = Server(messages, variable, 0, comm.size)
        server = LocalAggregation(server, each) if name == "local aggregation" else server
        pulled = server.pull(rows)
        ids, total = server.push({(comm.rank, comm.rank + 1): RowGradient(rows, np.full_like(pulled, 4.0**comm.rank))})
        digits = {int(server.own[i]): np.base_repr(int(row[0]), 4) for i, row in zip(ids, total)}
        messages.tell(f"{name}: summed {digits}, to other machines {sum(messages.sent.values())} B")


if __name__ == "__main__":
    main()
