"""Direct allreduce: every rank owns one chunk, receives all its parts, adds them in tree order, and sends the sum back.

    rank 0 |a0 b0|      chunk a to rank 0        |A .|     everyone sends       |A B|
    rank 1 |a1 b1|  ->  chunk b to rank 1   ->   |. B|  -> its sum to all  ->   |A B|

It takes two rounds. A rank with one input sends 2 (N - 1) / N * n bytes, the lower bound. The order is reproducible for
every N: the owner of a chunk forms the nodes of the microbatch tree that the ranks did not form themselves.

Source: the pairwise exchange of Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in
MPICH (2005). Here all pairs exchange at once, so that each half is one round.
"""

from refimpl.collectives.algorithms.halves import sums_of
from refimpl.collectives.schedule import Round, Transfer


def reduce_scatter(inputs):
    """Yield the round; return the owners. inputs[r]: tree nodes of rank r, in leaf order."""
    ranks = len(inputs)
    transfers, sums = [], []
    for owner in range(ranks):
        scratch, parts = len(inputs[owner]), []
        for rank in range(ranks):
            for slot, node in enumerate(inputs[rank]):
                target = slot
                if rank != owner:
                    target, scratch = scratch, scratch + 1
                    transfers.append(Transfer(rank, owner, owner, owner + 1, slot, target))
                parts.append((node, target))
        sums += sums_of(owner, parts, owner, owner + 1)
    yield Round(tuple(transfers), tuple(sums))
    return tuple(range(ranks))


def allgather(ranks):
    """Yield the round in which every rank sends its chunk to all."""
    yield Round(tuple(Transfer(owner, rank, owner, owner + 1)
                      for owner in range(ranks) for rank in range(ranks) if rank != owner))
