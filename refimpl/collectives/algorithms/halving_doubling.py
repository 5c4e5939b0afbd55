r"""Recursive halving-doubling (Rabenseifner 2004), nearest partners first, for a power of two of ranks.

Halving: in round k the ranks r and r XOR 2**k share a segment; each keeps one half, sends the other, and adds.
Doubling: the same partners in reverse order send the finished halves back.

    r0 r1 r2 r3     r0 r1 r2 r3          r0 = (0+1) + (2+3) in chunk 0, r1 in chunk 2, ...
     \_/   \_/       \__ __/
                        \_X_\          2 log2(N) rounds, 2 (N - 1) / N * n bytes sent by each rank: the lower bound.

Because nearest ranks come first, round k forms the sums of 2**k neighbouring ranks. These are nodes of the microbatch
tree if each rank has one node of one level. (For other numbers of ranks: rabenseifner.py, binary_blocks.py.)
"""

from refimpl.collectives.algorithms.halves import mirror, one_node_each
from refimpl.collectives.schedule import Round, Sum, Transfer


def segment(index: int, halvings: int, chunks: int) -> tuple[int, int]:
    """Return the chunks [start, stop) that member ``index`` of a block keeps after this number of halvings. Local."""
    start, stop = 0, chunks
    for k in range(halvings):
        middle = (start + stop) // 2
        start, stop = (middle, stop) if index >> k & 1 else (start, middle)
    return start, stop


def halving(members, scratch, chunks: int):
    """Yield the halving rounds of a block. members: a power of two of ranks.  scratch[rank]: a free slot."""
    for k in range(len(members).bit_length() - 1):
        kept = [segment(index, k + 1, chunks) for index in range(len(members))]
        partner = [members[index ^ 1 << k] for index in range(len(members))]
        yield Round(
            tuple(Transfer(rank, partner[index], *kept[index ^ 1 << k], target=scratch[partner[index]])
                  for index, rank in enumerate(members)),
            tuple(Sum(rank, 0, scratch[rank], *kept[index]) for index, rank in enumerate(members)),
        )


def owners_of(members) -> tuple[int, ...]:
    """Return the rank that keeps each chunk after a block has halved a vector with one chunk for each member. Local."""
    halvings = len(members).bit_length() - 1
    left_with = {segment(index, halvings, len(members))[0]: rank for index, rank in enumerate(members)}
    return tuple(left_with[chunk] for chunk in range(len(members)))


def reduce_scatter(inputs):
    """Yield the rounds; return the owners. inputs[r]: the one node of rank r. Raises ValueError for other inputs."""
    ranks = len(inputs)
    levels = {node.level for nodes in inputs for node in nodes}
    if ranks & (ranks - 1) or len(levels) != 1 or any(len(nodes) != 1 for nodes in inputs):
        raise ValueError(
            f"halving-doubling needs a power of two of ranks ({ranks} given) with the same power of two of microbatches"
            f" each; direct adds in the reproducible order for any number (--allreduce direct)"
        )
    yield from halving(range(ranks), [1] * ranks, ranks)
    return owners_of(range(ranks))


def allgather(ranks):
    """Yield the doubling rounds: the rank that received a segment has its sum, and sends it back."""
    yield from mirror(reduce_scatter(one_node_each(ranks)))
