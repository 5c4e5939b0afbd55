"""Ring allreduce (Patarasuk & Yuan 2009): N - 1 steps of reduce-scatter, N - 1 of allgather, to the right neighbour.

    step 0: rank r sends chunk r     r -> r+1, which adds it to its own
    step 1: rank r sends chunk r-1   (the sum of two ranks by now)
    ...                              after N - 1 steps rank r has the whole sum of chunk r+1, and passes it on

2 (N - 1) rounds, 2 (N - 1) / N * n bytes sent by each rank: the lower bound, with one partner only. Each chunk is
added up along the ring from another starting rank: deterministic, but not the microbatch tree. Not canonical.
"""

from refimpl.collectives.schedule import Round, Sum, Transfer


def reduce_scatter(inputs):
    """Yield the rounds; return the owners. inputs[r]: tree nodes of rank r; several are first added up."""
    ranks = len(inputs)
    if not all(inputs):
        raise ValueError("ring needs at least one microbatch on every rank; direct does not (--allreduce direct)")
    own = tuple(Sum(r, 0, slot, 0, ranks) for r in range(ranks) for slot in range(1, len(inputs[r])))
    if own:
        yield Round(sums=own)
    scratch = [max(1, len(nodes)) for nodes in inputs]
    for step in range(ranks - 1):
        chunk = [(rank - step) % ranks for rank in range(ranks)]
        right = [(rank + 1) % ranks for rank in range(ranks)]
        yield Round(
            tuple(Transfer(r, right[r], chunk[r], chunk[r] + 1, 0, scratch[right[r]]) for r in range(ranks)),
            tuple(Sum(right[r], 0, scratch[right[r]], chunk[r], chunk[r] + 1) for r in range(ranks)),
        )
    return tuple((chunk - 1) % ranks for chunk in range(ranks))


def allgather(ranks):
    """Yield the rounds in which whole sums go round: rank r begins with chunk r + 1."""
    for step in range(ranks - 1):
        chunk = [(rank + 1 - step) % ranks for rank in range(ranks)]
        yield Round(tuple(Transfer(r, (r + 1) % ranks, chunk[r], chunk[r] + 1) for r in range(ranks)))
