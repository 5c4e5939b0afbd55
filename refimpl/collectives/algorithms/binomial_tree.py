"""Binomial tree: reduce to rank 0, nearest ranks first, and broadcast along the same tree (Thakur et al. 2005).

    round 0   0<-1  2<-3  4<-5  6          round 1   0<---2  4<---6        round 2   0<-------4

It takes 2 ceil(log2 N) rounds; rank 0 receives ceil(log2 N) n bytes. One half alone is a reduce, or a broadcast: rank 0
owns all chunks. The order is reproducible for every N if each rank has one node of one level: r and r + 2**k are then
siblings in round k.
"""

from refimpl.collectives.algorithms.halves import add_own, mirror, one_node_each
from refimpl.collectives.schedule import Round, Sum, Transfer


def reduce_scatter(inputs):
    """Yield the rounds of the reduce; return the owners: rank 0. inputs[r]: tree nodes of rank r."""
    ranks = len(inputs)
    yield from add_own("binomial-tree", inputs, 1)
    for k in range((ranks - 1).bit_length()):
        parents = [r for r in range(0, ranks, 2 << k) if r + (1 << k) < ranks]
        yield Round(tuple(Transfer(r + (1 << k), r, 0, 1, target=len(inputs[r])) for r in parents),
                    tuple(Sum(r, 0, len(inputs[r]), 0, 1) for r in parents))
    return (0,)


def allgather(ranks):
    """Yield the rounds of the broadcast from rank 0."""
    yield from mirror(reduce_scatter(one_node_each(ranks)))
