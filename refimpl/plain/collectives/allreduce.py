"""An allreduce in a reproducible order: the same bits for every number of ranks. Often as few bytes as the ring.

    rank 0 |a0 b0|     chunk a to rank 0,       |A .|     everyone sends       |A B|
    rank 1 |a1 b1|  -> chunk b to rank 1;    -> |. B|  -> its sum to all    -> |A B|
                       each adds in tree order

A rank sends the nodes of the microbatch tree that it formed from its own microbatches. The owner of a chunk adds them
up to the root. A rank with one node sends 2 (N - 1) / N of the vector.

    mpirun -n 4 python -m refimpl.plain.collectives.allreduce
"""

import numpy as np
from mpi4py import MPI

from refimpl.plain.adding.tree import add_up, by_node, form_nodes, microbatches_of, nodes_by_rank
from refimpl.plain.messages import Messages


def allreduce(messages, vectors, microbatches, phase="allreduce"):
    """Return the sum over all microbatches (n,). Collective.

    vectors: (k, n), one for each node of this rank, in the order of ``tree.nodes_by_rank``.
    """
    size, length = messages.size, vectors.shape[1]
    bounds = [c * length // size for c in range(size + 1)]
    # chunk r of every vector goes to rank r
    arrived = messages.exchange([vectors[:, lo:hi].ravel() for lo, hi in zip(bounds, bounds[1:])], phase)
    parts = by_node(nodes_by_rank(size, microbatches), arrived)  # sums of this rank's chunk
    mine = add_up(0, microbatches, parts, np.add)
    return np.concatenate(messages.gather(mine, phase))


def main(comm=MPI.COMM_WORLD, microbatches=8, length=12):
    """Add up the gradients of eight microbatches: 1 to 8 ranks give the same bits."""
    messages = Messages(comm)
    gradients = np.random.default_rng(0).standard_normal((microbatches, length)).astype(np.float32)
    start, stop = microbatches_of(comm.rank, comm.size, microbatches)
    nodes = form_nodes(start, gradients[start:stop], np.add)
    total = allreduce(messages, np.array(list(nodes.values())), microbatches)
    messages.tell(f"nodes {list(nodes)}, sent {messages.sent['allreduce']} B of {total.nbytes}, "
                  f"sum {total.tobytes().hex()[:24]}…")


if __name__ == "__main__":
    main()
