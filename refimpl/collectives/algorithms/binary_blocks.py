"""Binary blocks (Rabenseifner & Träff 2004): halving-doubling in blocks of 2**k ranks, then from small to large block.

    N = 7 = 4 + 2 + 1:   |0 1 2 3|  |4 5|  |6|      in each block, members end with a segment of the block's sum
                         |0 1 2 3| <------ |4 5| <- |6|      the segments of a block are split among the members of the
                                                             next larger one, which add them; then back the same way

It takes 2 ceil(log2 N) rounds for every N, because a small block is done while the large ones still halve. A rank sends
at most 2 n bytes, in one round to several ranks of the next block if this is larger. If each rank has one node of one
level, the order is reproducible for every N: the tree, too, adds up its incomplete right end from the right.
"""

from collections import defaultdict

from refimpl.collectives.algorithms.halves import add_own, mirror, one_node_each
from refimpl.collectives.algorithms.halving_doubling import halving, owners_of, segment
from refimpl.collectives.schedule import Round, Sum, Transfer


def blocks_of(ranks: int) -> list[range]:
    """Return the ranks in blocks of falling powers of two. Local."""
    blocks, first = [], 0
    for k in reversed(range(ranks.bit_length())):
        if ranks >> k & 1:
            blocks.append(range(first, first + (1 << k)))
            first += 1 << k
    return blocks


def reduce_scatter(inputs):
    """Yield the rounds; return the owners, all in the largest block. inputs[r]: tree nodes of rank r."""
    blocks = blocks_of(len(inputs))
    chunks, scratch = len(blocks[0]), [len(nodes) for nodes in inputs]
    yield from add_own("binary-blocks", inputs, chunks)
    steps = defaultdict(list)  # round -> the steps of the blocks in it
    ready = 0  # the round in which the sum of all smaller blocks can be sent
    for block, smaller in zip(reversed(blocks), [None, *reversed(blocks)]):
        halvings = list(halving(block, scratch, chunks))
        for number, step in enumerate(halvings):
            steps[number].append(step)
        ready = max(ready, len(halvings))
        if smaller:
            steps[ready].append(_take_in(smaller, block, scratch, chunks))
            ready += 1
    for number in range(ready):
        yield Round(sum((s.transfers for s in steps[number]), ()), sum((s.sums for s in steps[number]), ()))
    return owners_of(blocks[0])


def _take_in(small, large, scratch, chunks):
    """Return the step in which the members of ``large`` receive and add their segments of the sum of ``small``."""
    transfers = []
    for index, rank in enumerate(large):
        sender = small[index % len(small)]  # the first halvings of both blocks are the same: segments nest
        transfers.append(Transfer(sender, rank, *segment(index, len(large).bit_length() - 1, chunks),
                                  target=scratch[rank]))
    return Round(tuple(transfers), tuple(Sum(t.destination, 0, t.target, t.start, t.stop) for t in transfers))


def allgather(ranks):
    """Yield the rounds back: from the large block to the small ones, then doubling in each."""
    yield from mirror(reduce_scatter(one_node_each(ranks)))
