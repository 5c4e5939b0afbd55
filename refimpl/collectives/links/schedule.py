"""A packing as a schedule: each pair of trees adds up its chunks of the vector to the root, and hands them out again.

A tree of rate r carries r / rate of the vector. All trees work at once, a level of depth in each round; cut into
segments, which go through one after the other, links are busy both ways. Each parent adds its own and then its
children by their number: deterministic, but not the order of the microbatch tree. Not canonical.
"""

from fractions import Fraction
from math import gcd, lcm
from typing import NamedTuple

from refimpl.collectives.algorithms.halves import add_own, collect, one_node_each
from refimpl.collectives.links.pack import Packing, Tree
from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer


class Share(NamedTuple):
    """Chunks [start, stop): added up along the tree ``inward``, handed out along ``outward``, which has its root."""

    inward: Tree
    outward: Tree
    start: int
    stop: int


def shares_of(packing: Packing) -> list[Share]:
    """Return what each pair of trees carries; the last one's ``stop`` is the number of chunks. Local."""
    left = {False: [], True: []}
    for tree in packing.trees:
        left[tree.inward].append((tree.root, tree.rate, tree))
    pairs = []
    while left[True]:
        root, rate, inward = left[True].pop()
        at = next(i for i, (other, _, _) in enumerate(left[False]) if other == root)
        _, most, outward = left[False].pop(at)
        used = min(rate, most)
        pairs.append((inward, outward, used))
        left[True] += [(root, rate - used, inward)] * (rate > used)
        left[False] += [(root, most - used, outward)] * (most > used)
    unit = Fraction(gcd(*(used.numerator for *_, used in pairs)), lcm(*(used.denominator for *_, used in pairs)))
    shares, start = [], 0
    for inward, outward, used in pairs:
        shares.append(Share(inward, outward, start, start + int(used / unit)))
        start = shares[-1].stop
    return shares


def tree_schedule(packing: Packing, inputs=None, name: str = "trees") -> Schedule:
    """Return the proved schedule of an allreduce's packing. Local.

    inputs[r]: tree nodes of rank r, as of ``Schedule``; None: one microbatch each.
    Raises ValueError for a packing of another kind, or a rank without a microbatch.
    """
    if packing.kind != "allreduce":
        raise ValueError(f"the packing is one of {packing.kind}: pack for an allreduce")
    inputs = one_node_each(packing.links.ranks) if inputs is None else inputs
    shares = shares_of(packing)
    rounds, owners = collect(_rounds(shares, inputs))
    schedule = Schedule(name, len(owners), inputs, rounds, owners=owners)
    prove(schedule)
    return schedule


def _rounds(shares, inputs):
    yield from add_own("trees", inputs, shares[-1].stop)
    ups = [(share, _levels(share.inward)) for share in shares]
    for depth in range(max(len(levels) for _, levels in ups), 0, -1):
        moves, sums = [], []
        for share, levels in ups:
            arrived: dict[int, int] = {}
            for parent, child in sorted(levels[depth - 1]) if depth <= len(levels) else ():
                slot = len(inputs[parent]) + arrived.setdefault(parent, 0)
                arrived[parent] += 1
                moves.append(Transfer(child, parent, share.start, share.stop, target=slot))
                sums.append(Sum(parent, 0, slot, share.start, share.stop))
        yield Round(tuple(moves), tuple(sums))
    downs = [(share, _levels(share.outward)) for share in shares]
    for depth in range(max(len(levels) for _, levels in downs)):
        yield Round(tuple(Transfer(parent, child, share.start, share.stop) for share, levels in downs
                          for parent, child in (levels[depth] if depth < len(levels) else ())))
    return tuple(share.inward.root for share in shares for _ in range(share.start, share.stop))


def _levels(tree) -> list[list[tuple[int, int]]]:
    """Return the edges (parent, child) of a tree by depth."""
    depth, levels = {tree.root: 0}, []
    for way in tree.ways:
        parent, child = way[0], way[-1]
        depth[child] = depth[parent] + 1
        levels += [[] for _ in range(depth[child] - len(levels))]
        levels[depth[child] - 1].append((parent, child))
    return levels
