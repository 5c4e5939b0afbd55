"""Recursive halving-doubling (Rabenseifner 2004), nearest partners first, for a power of two of ranks.

Halving: in round k the ranks r and r XOR 2**k share a segment; each keeps one half, sends the other, adds.
Doubling: the same partners in reverse order give the finished halves back.

    r0 r1 r2 r3     r0 r1 r2 r3          r0 = (0+1) + (2+3) in chunk 0, r1 in chunk 2, ...
     \\_/   \\_/       \\__ __/
                        \\_X_\\          2 log2(N) rounds, 2 (N - 1) / N * n bytes sent by each rank: the lower bound.

Nearest first, so that the sum of 2**k neighbouring ranks is formed in round k: exactly the microbatch tree, where
each rank holds one node of one level.
"""

from refimpl.collectives.schedule import Round, Sum, Transfer


def halving_doubling(inputs):
    """Yield the rounds. inputs[r]: the one tree node of rank r. Raises ValueError if that is not canonical."""
    ranks = len(inputs)
    levels = {node.level for nodes in inputs for node in nodes}
    if ranks & (ranks - 1) or len(levels) != 1 or any(len(nodes) != 1 for nodes in inputs):
        raise ValueError(
            f"halving-doubling needs a power of two of ranks ({ranks} given) with the same power of two of microbatches"
            f" each; use --allreduce direct, which is canonical for any number"
        )
    segment = [(0, ranks)] * ranks
    halving = []
    for distance in (1 << k for k in range(ranks.bit_length() - 1)):
        transfers, sums = [], []
        for rank in range(ranks):
            start, stop = segment[rank]
            middle = (start + stop) // 2
            lower_is_mine = rank & distance == 0
            kept, given = ((start, middle), (middle, stop)) if lower_is_mine else ((middle, stop), (start, middle))
            transfers.append(Transfer(rank, rank ^ distance, *given, target=1))
            sums.append(Sum(rank, 0, 1, *kept))
            segment[rank] = kept
        halving.append([Transfer(t.destination, t.source, t.start, t.stop) for t in transfers])
        yield Round(tuple(transfers), tuple(sums))
    for transfers in reversed(halving):  # whoever was sent a segment has its sum, and sends it back
        yield Round(tuple(transfers))
