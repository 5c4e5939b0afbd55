"""Direct allreduce: every rank owns one chunk, is sent all its parts, adds them up in tree order, sends the sum back.

    rank 0 |a0 b0|      chunk a to rank 0        |A .|     everyone sends       |A B|
    rank 1 |a1 b1|  ->  chunk b to rank 1   ->   |. B|  -> its sum to all  ->   |A B|

Two rounds. Bytes sent by a rank with one input: 2 (N - 1) / N * n, the lower bound. Canonical for every N: the owner
of a chunk forms the nodes of the microbatch tree that the ranks did not form themselves.
"""

from refimpl.collectives.schedule import Round, Sum, Transfer
from refimpl.gradients import fold


def direct(inputs):
    """Yield the rounds. inputs[r]: tree nodes of rank r, in leaf order."""
    ranks = len(inputs)
    transfers, sums = [], []
    for owner in range(ranks):
        own, scratch, parts = len(inputs[owner]), len(inputs[owner]), []
        for rank in range(ranks):
            for slot, node in enumerate(inputs[rank]):
                target = slot
                if rank != owner:
                    target, scratch = scratch, scratch + 1
                    transfers.append(Transfer(rank, owner, owner, owner + 1, slot, target))
                parts.append((node, target))

        def add(left, right, owner=owner):
            into, other = min(left, right), max(left, right)  # a + b and b + a are the same bits: end in slot 0
            sums.append(Sum(owner, into, other, owner, owner + 1))
            return into

        fold(parts, add)
    yield Round(tuple(transfers), tuple(sums))
    yield Round(tuple(Transfer(owner, rank, owner, owner + 1)
                      for owner in range(ranks) for rank in range(ranks) if rank != owner))
