"""The hierarchical allreduce: within each machine, between the machines, and back. It spares the network cards.

    machine A   0 1     1. Rank p of a machine gets part p of the vectors of its machine's ranks, and adds them up.
                | |     2. The ranks p of all machines do an allreduce of part p; each adds up one chunk of the part.
    machine B   2 3     3. Within each machine, every rank gets the sums of all parts.

Only step 2 crosses the network. If the microbatches of each machine form one node of the tree, 2 (M - 1) / M of the
vector leave each of M machines, whatever the number of its ranks.
Every sum is a node of the microbatch tree, so the bits are those of one rank.

    mpirun -n 4 python -m refimpl.plain.collectives.hierarchical
"""

import numpy as np
from mpi4py import MPI

from refimpl.plain.adding.tree import add_up, by_node, cover, form_nodes, microbatches_of, nodes_by_rank
from refimpl.plain.messages import Messages


class Hierarchy:
    """The ranks of ``comm``, divided into machines. each: the number of ranks on every machine; they are consecutive.

    within: messages between the ranks of this machine.  across: messages between the ranks that have the same place on
    their machines as this rank.
    """

    def __init__(self, comm, each):
        self.rank, self.size, self.each, self.machines = comm.rank, comm.size, each, comm.size // each
        self.machine, self.place = divmod(comm.rank, each)
        self.within, self.across = Messages(comm.Split(self.machine)), Messages(comm.Split(self.place))

    def allreduce(self, vectors, microbatches):
        """Return the sum over all microbatches (n,). vectors: (k, n), as in ``allreduce.allreduce``. Collective."""
        length, chunks, none = vectors.shape[1], self.size, np.empty(0, vectors.dtype)
        bounds = np.array([c * length // chunks for c in range(chunks + 1)])
        ends = bounds[::self.machines]  # where the parts begin and end; a part has a chunk for each machine
        # step 1: this rank's part of the vectors of its machine's ranks
        arrived = self.within.exchange([vectors[:, lo:hi].ravel() for lo, hi in zip(ends, ends[1:])], "within")
        ranks = range(self.machine * self.each, (self.machine + 1) * self.each)
        every = nodes_by_rank(self.size, microbatches)
        parts = by_node([every[r] for r in ranks], arrived)
        nodes_of = [cover(*microbatches_of(machine, self.machines, microbatches)) for machine in range(self.machines)]
        formed = [add_up(*node, parts, np.add) for node in nodes_of[self.machine]]

        # step 2: own: where the chunks of this part begin and end, one for each machine
        own = bounds[self.place * self.machines:][:self.machines + 1] - ends[self.place]
        arrived = self.across.exchange([np.concatenate([none, *(part[lo:hi] for part in formed)])
                                        for lo, hi in zip(own, own[1:])], "across")
        chunk = add_up(0, microbatches, by_node(nodes_of, arrived), np.add)
        part = np.concatenate(self.across.gather(chunk, "across"))
        return np.concatenate(self.within.gather(part, "within"))  # step 3


def main(comm=MPI.COMM_WORLD, microbatches=8, length=12):
    """Add up the gradients of eight microbatches on machines of one rank and of two: the bits are the same."""
    gradients = np.random.default_rng(0).standard_normal((microbatches, length)).astype(np.float32)
    start, stop = microbatches_of(comm.rank, comm.size, microbatches)
    nodes = np.array(list(form_nodes(start, gradients[start:stop], np.add).values()))
    for each in (1, 2):
        if comm.size % each == 0:
            hierarchy = Hierarchy(comm, each)
            total = hierarchy.allreduce(nodes, microbatches)
            Messages(comm).tell(f"machines of {each}: sent {hierarchy.across.sent['across']} B to other machines, "
                                f"{hierarchy.within.sent['within']} B within, sum {total.tobytes().hex()[:24]}…")


if __name__ == "__main__":
    main()
