"""Ring allreduce (Patarasuk & Yuan 2009): N - 1 steps of reduce-scatter, N - 1 of allgather, to the next rank.

    step 0: rank r sends chunk r     r -> r+1, which adds it to its own
    step 1: rank r sends chunk r-1   (now the sum of two ranks)
    ...                              after N - 1 steps rank r has the whole sum of chunk r+1, and sends it on

There are 2 (N - 1) rounds. Each rank sends 2 (N - 1) / N * n bytes, the lower bound, to one partner. The sum of each
chunk begins at another rank, so the order is fixed, but not the reproducible one.
"""

from refimpl.collectives.schedule import Round, Sum, Transfer


def reduce_scatter(inputs):
    """Yield the rounds; return the owners. inputs[r]: tree nodes of rank r; several are added up first."""
    ranks = len(inputs)
    if not all(inputs):
        raise ValueError("ring needs a microbatch on every rank: give more --microbatches, or --allreduce direct")
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
    """Yield the rounds in which whole sums go around the ring: rank r begins with chunk r + 1."""
    for step in range(ranks - 1):
        chunk = [(rank + 1 - step) % ranks for rank in range(ranks)]
        yield Round(tuple(Transfer(r, (r + 1) % ranks, chunk[r], chunk[r] + 1) for r in range(ranks)))
