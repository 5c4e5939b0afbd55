"""The sums of a packing with ways, round by round: each item goes its way, and two that meet are added up.

A rank keeps an item in its lowest free slot. Its inputs are in slots 0, 1, ... until they are sent. The whole sum ends
in slot 0.
"""

from refimpl.collectives.schedule import Sum, Transfer


def sum_by_ways(items, share, inputs, ranks: int) -> list[tuple[list[Transfer], list[Sum]]]:
    """Return the rounds (transfers, sums) that add up a share's chunks at its root. Local. share: with ``Ways``."""
    hops = {item: [node for node in way if node < ranks] for item, way in share.inward.items()}
    hops_from, sums_in, last = _timed(items, hops)
    slots = {item: (rank, slot) for item, (rank, slot) in enumerate(items.leaves)}
    taken = {(rank, slot) for rank, nodes in enumerate(inputs) for slot in range(len(nodes))}
    rounds = []
    for number in range(last + 1):
        moves, sums, left = [], [], []
        for item, source, target in hops_from.get(number, ()):
            origin = slots[item]
            slots[item] = _free(taken, target)
            moves.append(Transfer(source, target, share.start, share.stop, origin[1], slots[item][1]))
            left.append(origin)
        for whole in sums_in.get(number, ()):
            (rank, into), (_, other) = sorted(slots[part] for part in items.parts[whole])
            sums.append(Sum(rank, into, other, share.start, share.stop))
            slots[whole] = rank, into
            taken.discard((rank, other))
        taken.difference_update(left)  # only now: a slot that is being sent must not be overwritten
        rounds.append((moves, sums))
    return rounds[0 if rounds[0][1] else 1:]


def _timed(items, hops):
    """Return (round -> (item, from, to) of its hops, round -> its sums, the last round); round 0 has no hops."""
    hops_from, sums_in, there = {}, {}, {}  # there: item -> the first round in which it can be sent on from its end
    begins = dict.fromkeys(range(len(items.leaves)), 1)
    for item in range(items.root + 1):
        if item in items.parts:
            begins[item] = max(there[part] for part in items.parts[item])
            sums_in.setdefault(begins[item] - 1, []).append(item)
        for number, (source, target) in enumerate(zip(hops[item], hops[item][1:]), begins[item]):
            hops_from.setdefault(number, []).append((item, source, target))
        there[item] = begins[item] + len(hops[item]) - 1
    return hops_from, sums_in, begins[items.root] - 1


def _free(taken, rank) -> tuple[int, int]:
    """Return the lowest free slot of a rank, and mark it as used."""
    slot = 0
    while (rank, slot) in taken:
        slot += 1
    taken.add((rank, slot))
    return rank, slot
