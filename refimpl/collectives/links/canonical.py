"""The fastest allreduce whose sums are all nodes of the microbatch tree, so that its order is the reproducible one.

Each node of the tree above the ranks' inputs is added up from its two children, on any rank that receives both:

    an item, part of the tree's node B, at a network node:  formed + received = sent + used to form B
    each link:                                              the items and the answer fit into its rate

A linear programme decides how much of each tree node is formed where, and on which ways its parts travel. Its dual
prices prove that no schedule of this kind is faster. The answer is sent along trees.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from refimpl.collectives.links.allreduce import add_half, priced
from refimpl.collectives.links.flow import taken
from refimpl.collectives.links.graph import Links
from refimpl.collectives.links.programme import Programme
from refimpl.gradients import fold

Ways = dict[int, tuple[int, ...]]
"""Item -> the nodes of its way from where it is formed to where it is used; for the root: its place alone."""


@dataclass(frozen=True)
class Items:
    """The items: item i < len(leaves) is the input (rank, slot) leaves[i], the others are sums of two items.

    parts: sum -> (left, right).  into: item -> the sum that it is part of.  root: the whole sum.
    """

    leaves: list[tuple[int, int]]
    parts: dict[int, tuple[int, int]]
    into: dict[int, int]
    root: int


def items_of(inputs) -> Items:
    """Return the items above the inputs of a ``Schedule``. Local."""
    leaves = [(rank, slot) for rank, nodes in enumerate(inputs) for slot in range(len(nodes))]
    parts: dict[int, tuple[int, int]] = {}

    def add(left, right):
        number = len(leaves) + len(parts)
        parts[number] = left, right
        return number

    root = fold(list(zip((node for nodes in inputs for node in nodes), range(len(leaves)))), add)
    return Items(leaves, parts, {part: whole for whole, both in parts.items() for part in both}, root)


@dataclass(frozen=True)
class CanonicalHalves:
    """How such an allreduce divides the links. All numbers are integers: rates times ``scale``.

    rate: the best.  proof: the reason, as text.  roots: rank -> the amount of the answer that begins there.
    outward: capacities of the answer.  ways: (amount, the ways of all items); the amounts add up to the rate.
    """

    items: Items
    rate: Fraction
    proof: str
    scale: int
    roots: dict[int, int]
    outward: dict[tuple[int, int], int]
    ways: list[tuple[int, Ways]]


def canonical_halves(links: Links, inputs) -> CanonicalHalves:
    """Return the best division for these inputs. Local. Raises ArithmeticError if its proof fails."""
    items = items_of(inputs)
    values, rate, prices = _programme(links, items).solve()
    scale, whole = _few_ways(links, items, rate) or _all_ways(values)
    roots = {name[2]: amount for name, amount in whole.items() if name[:2] == ("formed", items.root)}
    outward = {name[1:]: amount for name, amount in whole.items() if name[0] == "out"}
    ways = [(amount, {items.root: (rank,)}) for rank, amount in roots.items()]
    for item in sorted(items.into, reverse=True):  # a sum before its parts
        pieces = _pieces(items, item, whole, sum(roots.values()))
        ways = [part for amount, so_far in ways
                for part in _extended(amount, so_far, item, pieces[so_far[items.into[item]][0]])]
    proof = f"with these prices of links the tree's sums and the answer cost at least 1: {priced(links, prices)}"
    return CanonicalHalves(items, rate, proof, scale, roots, outward, ways)


def _all_ways(values):
    """Return (scale, scale * values), which are integers, without zeros."""
    scale = lcm(*(value.denominator for value in values.values()))
    return scale, {name: int(value * scale) for name, value in values.items() if value}


def _few_ways(links, items, rate):
    """Return (scale, scale * values) with the smallest of a few scales that makes them integers; None if none does.

    A small scale gives few chunks on few ways. Many ways through one card slow each other down.
    """
    least = lcm(rate.denominator, *(most.denominator for most in links.rates.values()))
    for scale in range(least, 5 * least, least):
        programme = _programme(links, items, scale)
        programme.add(programme.equal, dict.fromkeys(programme.goal, 1), rate * scale)
        names = [name for name in programme.columns if name[0] in ("goes", "formed", "out")]
        if (found := programme.solve_whole(names)) is not None:
            return scale, {name: amount for name, amount in found.items() if amount}
    return None


def _programme(links, items, scale=1):
    """Return the programme for the largest rate, with all rates multiplied by ``scale``."""
    ranks = range(links.ranks)
    roots = [("formed", items.root, rank) for rank in ranks]
    programme = Programme(roots)
    for (a, b), rate in links.rates.items():
        terms = {("goes", item, a, b): 1 for item in items.into} | {("out", a, b): 1}
        programme.add(programme.most, terms, rate * scale)
    for item, whole in items.into.items():
        for node in range(links.ranks + links.switches):
            terms = Counter({("goes", item, a, b): 1 if b == node else -1 for a, b in links.rates if node in (a, b)})
            if node in ranks:
                terms["formed", whole, node] -= 1
                if item in items.parts:
                    terms["formed", item, node] += 1
                elif items.leaves[item][0] == node:
                    terms.update(dict.fromkeys(roots, 1))
            programme.add(programme.equal, terms)
    add_half(programme, links, "out", roots)
    return programme


def _pieces(items, item, whole, total):
    """Return rank where an item is used -> [(amount, its way to this rank)]."""
    goes = {name[2:]: amount for name, amount in whole.items() if name[:2] == ("goes", item)}
    if item in items.parts:
        formed = {name[2]: amount for name, amount in whole.items() if name[:2] == ("formed", item)}
    else:
        formed = {items.leaves[item][0]: total}
    used = {name[2]: amount for name, amount in whole.items() if name[:2] == ("formed", items.into[item])}
    pieces: dict[int, list] = {}
    for place in used:  # the amount that is used where it is formed
        stays = min(formed.get(place, 0), used[place])
        if stays:
            _found(pieces, formed, used, goes, stays, (place,))
    while any(formed.values()):
        way = _way(next(place for place, amount in formed.items() if amount), goes, used)
        most = min([formed[way[0]], used[way[-1]], *(goes[link] for link in zip(way, way[1:]))])
        _found(pieces, formed, used, goes, most, way)
    return pieces


def _found(pieces, formed, used, goes, amount, way):
    pieces.setdefault(way[-1], []).append((amount, way))
    formed[way[0]] -= amount
    used[way[-1]] -= amount
    for link in zip(way, way[1:]):
        goes[link] -= amount


def _way(start, goes, used) -> tuple[int, ...]:
    """Return the shortest way from a rank, over links that carry something, to where something is used."""
    came, todo = {start: None}, [start]
    for node in todo:
        if used.get(node):
            way = [node]
            while came[way[-1]] is not None:
                way.append(came[way[-1]])
            return tuple(reversed(way))
        new = [b for (a, b), amount in goes.items() if a == node and amount and b not in came]
        came |= dict.fromkeys(new, node)
        todo += new
    raise ArithmeticError(f"no link leads further from rank {start}")


def _extended(amount, so_far, item, pieces):
    """Yield (amount, ways), where ways has one more item, from its pieces."""
    for used, way in taken(pieces, amount):
        yield used, {**so_far, item: way}
