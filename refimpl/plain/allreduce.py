"""The canonical allreduce: as few bytes as the ring, and the same bits for every number of ranks.

    rank 0 |a0 b0|     chunk a to rank 0,       |A .|     everyone sends       |A B|
    rank 1 |a1 b1|  -> chunk b to rank 1;    -> |. B|  -> its sum to all    -> |A B|
                       each adds in tree order

A rank brings the nodes of the microbatch tree that it could form; the chunk's owner forms the rest.
Bytes sent by a rank with one node: 2 (N - 1) / N of the vector.

    mpirun -n 4 python -m refimpl.plain.allreduce
"""

import numpy as np
from mpi4py import MPI

from refimpl.plain.messages import Messages
from refimpl.plain.tree import add_up, cover, form_nodes, microbatches_of


def allreduce(messages, nodes, microbatches, phase="allreduce"):
    """Return the sum over all microbatches. Collective.

    nodes: {(start, stop): vector (n,)} of this rank's microbatches, see ``tree.form_nodes``; at least one.
    """
    size = messages.size
    length, dtype = len(next(iter(nodes.values()))), next(iter(nodes.values())).dtype
    bounds = [c * length // size for c in range(size + 1)]
    outgoing = [np.array([vector[lo:hi] for vector in nodes.values()]) for lo, hi in zip(bounds, bounds[1:])]
    arrived = messages.exchange([part.ravel() for part in outgoing], phase)
    parts, width = {}, bounds[messages.rank + 1] - bounds[messages.rank]
    for rank, part in enumerate(arrived):
        of_rank = cover(*microbatches_of(rank, size, microbatches))
        parts |= dict(zip(of_rank, part.reshape(len(of_rank), width)))
    mine = add_up(0, microbatches, parts, np.add)
    return np.concatenate(messages.gather(mine, phase)).astype(dtype, copy=False)


def main(comm=MPI.COMM_WORLD, microbatches=8, length=12):
    messages = Messages(comm)
    gradients = np.random.default_rng(0).standard_normal((microbatches, length)).astype(np.float32)
    start, stop = microbatches_of(comm.rank, comm.size, microbatches)
    total = allreduce(messages, form_nodes(start, gradients[start:stop], np.add), microbatches)
    messages.tell(f"microbatches {start} to {stop - 1}, sent {messages.sent['allreduce']} B of "
                  f"{total.nbytes}, sum {total.tobytes().hex()[:24]}…")


if __name__ == "__main__":
    main()
