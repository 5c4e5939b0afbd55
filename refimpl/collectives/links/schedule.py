"""A packing as a schedule: each pair of trees adds up its chunks of the vector at the root, and sends the sums back.

A tree of rate r carries r / rate of the vector. All trees work at once, a level of depth in each round. The vector is
cut into segments, which follow each other, so links are busy in both directions. Each parent adds its own vector and
then its children by their number. This order is fixed, but not the reproducible one. The sums of a packing with
``ways`` are nodes of the microbatch tree.
"""

from collections import Counter
from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from refimpl.collectives.algorithms.halves import add_own, collect, one_node_each
from refimpl.collectives.links.canonical import Ways
from refimpl.collectives.links.pack import Packing, Tree
from refimpl.collectives.links.ways import sum_by_ways
from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer


class Share(NamedTuple):
    """Chunks [start, stop): added up along the tree ``inward``, or on items' ways, and sent back along ``outward``."""

    inward: Tree | Ways
    outward: Tree
    start: int
    stop: int


def shares_of(packing: Packing) -> list[Share]:
    """Return the share of each pair of trees; the last one's ``stop`` is the number of chunks. Local."""
    inward = [(tree.root, tree.rate, tree) for tree in packing.trees if tree.inward]
    inward += [(ways[packing.items.root][0], rate, ways) for rate, ways in packing.ways]
    outward = [(tree.root, tree.rate, tree) for tree in packing.trees if not tree.inward]
    pairs = []
    while inward:
        root, rate, to_root = inward.pop()
        at = next(i for i, (other, _, _) in enumerate(outward) if other == root)
        _, most, from_root = outward.pop(at)
        used = min(rate, most)
        pairs.append((to_root, from_root, used))
        inward += [(root, rate - used, to_root)] * (rate > used)
        outward += [(root, most - used, from_root)] * (most > used)
    unit = Fraction(gcd(*(used.numerator for *_, used in pairs)), lcm(*(used.denominator for *_, used in pairs)))
    shares, start = [], 0
    for to_root, from_root, used in pairs:
        shares.append(Share(to_root, from_root, start, start + int(used / unit)))
        start = shares[-1].stop
    return shares


def tree_schedule(packing: Packing, inputs=None, name: str = "trees") -> Schedule:
    """Return the proved schedule of an allreduce's packing. Local.

    inputs[r]: tree nodes of rank r, as in ``Schedule``; None: one microbatch each. A packing with ways has its own.
    Raises ValueError for a packing of another kind, or if a rank has no microbatch and the packing has no ways.
    """
    if packing.kind != "allreduce":
        raise ValueError(f"the packing is one of {packing.kind}: pack for an allreduce")
    inputs = one_node_each(packing.links.ranks) if inputs is None else inputs
    shares = shares_of(packing)
    rounds, owners = collect(packed_rounds(packing, shares, inputs))
    schedule = Schedule(name, len(owners), inputs, rounds, owners=owners)
    prove(schedule)
    return schedule


def packed_rounds(packing: Packing, shares: list[Share], inputs):
    """Yield the rounds; return the owners. Local. shares: of the packing.  inputs: see ``tree_schedule``."""
    if not packing.ways:
        yield from add_own("trees", inputs, shares[-1].stop)
    ups = [sum_by_ways(packing.items, share, inputs, packing.links.ranks) if packing.ways else
           _sum_by_tree(share, inputs) for share in shares]
    own = [s for rounds in ups if rounds and not rounds[0][0] for s in rounds.pop(0)[1]]
    if own:  # sums of own inputs need no message
        yield Round(sums=tuple(own))
    for before_last in range(max(map(len, ups)), 0, -1):  # all reach their roots in the same round
        steps = [rounds[-before_last] for rounds in ups if before_last <= len(rounds)]
        yield Round(tuple(t for moves, _ in steps for t in moves), tuple(s for _, sums in steps for s in sums))
    downs = [(share, _levels(share.outward)) for share in shares]
    for depth in range(max(len(levels) for _, levels in downs)):
        yield Round(tuple(Transfer(parent, child, share.start, share.stop) for share, levels in downs
                          for parent, child in (levels[depth] if depth < len(levels) else ())))
    return tuple(share.outward.root for share in shares for _ in range(share.start, share.stop))


def _sum_by_tree(share, inputs):
    """Return the rounds (transfers, sums) that add up a share along its tree."""
    rounds = []
    for level in reversed(_levels(share.inward)):
        moves, sums, arrived = [], [], Counter()
        for parent, child in sorted(level):
            slot = len(inputs[parent]) + arrived[parent]
            arrived[parent] += 1
            moves.append(Transfer(child, parent, share.start, share.stop, target=slot))
            sums.append(Sum(parent, 0, slot, share.start, share.stop))
        rounds.append((moves, sums))
    return rounds


def _levels(tree) -> list[list[tuple[int, int]]]:
    """Return the edges (parent, child) of a tree by depth."""
    depth, levels = {tree.root: 0}, []
    for way in tree.ways:
        parent, child = way[0], way[-1]
        depth[child] = depth[parent] + 1
        levels += [[] for _ in range(depth[child] - len(levels))]
        levels[depth[child] - 1].append((parent, child))
    return levels
