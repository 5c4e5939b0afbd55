"""Building blocks of algorithms: a rank's own sums, halves of an allreduce, and a half that runs backwards."""

from refimpl.collectives.schedule import Round, Sum, Transfer
from refimpl.gradients import Node, TreeSum, fold


def one_node_each(ranks: int):
    """Return inputs with one microbatch on each rank. Local."""
    return tuple((Node(0, rank),) for rank in range(ranks))


def sums_of(rank: int, parts, start: int, stop: int) -> list[Sum]:
    """Return the sums that add up a rank's slots in tree order; the last one goes to the lowest slot. Local.

    parts: (node, slot). Parts that form no node together are added up from the right, as in the tree.
    """
    sums = []
    fold(parts, _adder(sums, rank, start, stop))
    return sums


def joins_of(rank: int, parts, start: int, stop: int):
    """Return (sums, remaining parts) as ``sums_of``, but do not add parts that form no node together. Local."""
    sums = []
    left = TreeSum.of(parts, _adder(sums, rank, start, stop)).parts
    return sums, left


def _adder(sums, rank, start, stop):
    def add(left, right):
        into, other = min(left, right), max(left, right)  # a + b and b + a are the same bits
        sums.append(Sum(rank, into, other, start, stop))
        return into

    return add


def add_own(name: str, inputs, chunks: int):
    """Yield the round in which ranks add up their own inputs, if any has several. Raises ValueError if one has none."""
    if not all(inputs):
        raise ValueError(f"{name} needs a microbatch on every rank: give more --microbatches, or --allreduce direct")
    sums = [s for rank, nodes in enumerate(inputs)
            for s in sums_of(rank, [(node, slot) for slot, node in enumerate(nodes)], 0, chunks)]
    if sums:
        yield Round(sums=tuple(sums))


def mirror(rounds):
    """Yield the rounds of an allgather from those of a reduce-scatter: last round first, each transfer reversed.

    In a reduce-scatter a rank sends each chunk once, after it has received everything for it. So, backwards, each chunk
    reaches every rank that has contributed to it, over the same links and in as many rounds.
    """
    for step in reversed([step for step in rounds if step.transfers]):
        yield Round(tuple(Transfer(t.destination, t.source, t.start, t.stop) for t in step.transfers))


def allreduce_of(reduce_scatter, allgather):
    """Return the generator of an allreduce that consists of these halves."""
    def allreduce(inputs, **topology):
        owners = yield from reduce_scatter(inputs, **topology)
        yield from allgather(len(inputs), **topology)
        return owners

    return allreduce


def collect(generator):
    """Run an algorithm's generator; return (the rounds that it yields, the owners that it returns). Local."""
    owners = []

    def rounds():
        owners.append((yield from generator))

    return tuple(rounds()), owners[0]
