"""Pack trees into a network: for an allgather a set from each rank, for an allreduce trees in both directions."""

from dataclasses import dataclass
from fractions import Fraction

from refimpl.collectives.links.allreduce import halves
from refimpl.collectives.links.canonical import Items, Ways, canonical_halves
from refimpl.collectives.links.graph import Links
from refimpl.collectives.links.grow import grow_trees
from refimpl.collectives.links.optimum import fewer_trees, slowest_cut, whole_trees
from refimpl.collectives.links.switches import without_switches


@dataclass(frozen=True)
class Tree:
    """A spanning tree and its rate. ways: the nodes on the way of each edge, parent first, switches between.

    inward: its edges lead to the root, and it adds up; otherwise they lead away from it.
    """

    root: int
    rate: Fraction
    ways: tuple[tuple[int, ...], ...]
    inward: bool = False

    def links(self) -> list[tuple[int, int]]:
        """Return the directed links that it uses, in the direction of its data."""
        return [(b, a) if self.inward else (a, b) for way in self.ways for a, b in zip(way, way[1:])]


@dataclass(frozen=True)
class Packing:
    """Trees within a network's links. rate: of the whole.  best: the upper limit.  proof: its reason, as text.

    ways: for reproducible sums, instead of trees to the roots: (rate, the ways of all items).  items: all items.
    """

    links: Links
    kind: str
    rate: Fraction
    best: Fraction
    proof: str
    trees: tuple[Tree, ...]
    items: Items | None = None
    ways: tuple[tuple[Fraction, Ways], ...] = ()

    def check(self):
        """Raise ValueError unless each tree reaches every rank once over existing links, and all fit into the rates."""
        for tree in self.trees:
            reached = [tree.root]
            for way in tree.ways:
                if way[0] not in reached:
                    raise ValueError(f"the tree of root {tree.root} leaves rank {way[0]} before it has come there")
                reached.append(way[-1])
            if sorted(reached) != list(range(self.links.ranks)):
                raise ValueError(f"the tree of root {tree.root} reaches ranks {sorted(reached)}")
            if missing := set(tree.links()) - set(self.links.rates):
                raise ValueError(f"the tree of root {tree.root} uses links that do not exist: {sorted(missing)}")
        for way in (way for _, ways in self.ways for way in ways.values()):
            if missing := set(zip(way, way[1:])) - set(self.links.rates):
                raise ValueError(f"the path {way} uses links that do not exist: {sorted(missing)}")
        for link, part in self.load().items():
            if part > 1:
                raise ValueError(f"link {link} is loaded with {part} of its rate")
        for inward in (False, True):
            total = sum(tree.rate for tree in self.trees if tree.inward == inward)
            total += sum(rate for rate, _ in self.ways) if inward else 0
            if total not in ((self.rate,) if self.kind == "allreduce" else (self.rate, 0)):
                raise ValueError(f"the trees carry {total} and not {self.rate}")

    def load(self) -> dict[tuple[int, int], Fraction]:
        """Return the fraction of each link's rate that the trees use, from 0 to 1."""
        used = {link: Fraction(0) for link in self.links.rates}
        for tree in self.trees:
            for link in tree.links():
                used[link] += tree.rate
        for rate, ways in self.ways:
            for way in ways.values():
                for link in zip(way, way[1:]):
                    used[link] += rate
        return {link: used[link] / rate for link, rate in self.links.rates.items()}


def pack_canonical(links: Links, inputs) -> Packing:
    """Return the fastest packing of an allreduce whose sums are all nodes of the microbatch tree. Local.

    inputs[r]: tree nodes of rank r, as in ``Schedule``.
    """
    found = canonical_halves(links, inputs)
    trees = _grown(links, found.outward, found.roots, found.scale, False)
    ways = tuple((Fraction(amount, found.scale), ways) for amount, ways in found.ways)
    rate = Fraction(sum(found.roots.values()), found.scale)
    packing = Packing(links, "allreduce", rate, found.rate, found.proof, tuple(trees), found.items, ways)
    packing.check()
    return packing


def pack_trees(links: Links, kind: str = "allreduce", trees: int | None = None) -> Packing:
    """Return the fastest packing. kind: "allreduce", "allgather" or, with the same rate, "reduce-scatter". Local.

    trees: the most trees (for an allgather from each root, with equal weights); None: as many as the optimum needs. The
    rate is bytes of the whole vector per unit of time, in the unit of the links' rates.
    Raises ValueError for another kind, or a number of trees that is not possible.
    """
    if kind not in ("allreduce", "allgather", "reduce-scatter"):
        raise ValueError(f"there is no kind {kind}; there are allreduce, allgather, reduce-scatter")
    packing = _allreduce(links, trees) if kind == "allreduce" else _shared(links, kind, trees)
    packing.check()
    return packing


def _shared(links, kind, trees):
    inverse, cut = slowest_cut(links)
    k, scale, capacities = whole_trees(links, inverse)
    if trees is not None and trees < k:
        k, (scale, capacities) = trees, fewer_trees(links, trees)
    inward = kind == "reduce-scatter"
    if inward:
        capacities = _turned(capacities)
    found = _grown(links, capacities, dict.fromkeys(range(links.ranks), k), scale, inward)
    behind = sum(node < links.ranks for node in cut)
    carried = links.out_of(set(cut))
    proof = f"{behind} of {links.ranks} ranks are behind links that carry {carried} in all: nodes {_set(cut)}"
    return Packing(links, kind, links.ranks * k / scale, links.ranks / inverse, proof, tuple(found))


def _allreduce(links, trees):
    found = halves(links, trees)
    trees = _grown(links, found.outward, found.roots, found.scale, False)
    if found.inward is None:
        back = [Tree(tree.root, tree.rate, tree.ways, True) for tree in trees]
    else:
        back = _grown(links, _turned(found.inward), found.roots, found.scale, True)
    rate = Fraction(sum(found.roots.values()), found.scale)
    return Packing(links, "allreduce", rate, found.rate, found.proof, (*back, *trees))


def _grown(links, capacities, roots, scale, inward):
    between, routes = without_switches(links.ranks, links.switches, capacities, roots)
    found = []
    for tree in grow_trees(links.ranks, between, roots):
        found += _by_way(tree.ranks[0], tree.edges, tree.weight, routes, scale, inward)
    return found


def _by_way(root, edges, weight, routes, scale, inward):
    """Yield the tree as several trees, if its edges use several ways."""
    while weight:
        used = min([weight, *(routes[edge][-1][0] for edge in edges)])
        ways = []
        for edge in edges:
            most, way = routes[edge].pop()
            ways.append(way)
            routes[edge] += [(most - used, way)] * (most > used)
        weight -= used
        yield Tree(root, Fraction(used) / scale, tuple(ways), inward)


def _turned(capacities):
    return {(b, a): capacity for (a, b), capacity in capacities.items()}


def _set(nodes) -> str:
    return "{" + ", ".join(map(str, sorted(nodes))) + "}"
