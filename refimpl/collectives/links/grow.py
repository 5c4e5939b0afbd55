"""Spanning trees grown link by link, so that all of them together fit into the links (Bérczi and Frank; ForestColl).

A tree with weight m grows by the link x → y with the largest weight that lets every other tree be finished:

    μ = min(m, capacity of x → y, flow from x to y - Σ weights of the other unfinished trees)

For this flow, each other tree i is a node. A link with its weight leads from x to it, and links lead from it to all of
tree i's ranks. If μ < m, the tree is cut into two, of weights μ and m - μ.
"""

from dataclasses import dataclass, field

from refimpl.collectives.links.flow import Capacities


@dataclass
class Growing:
    """An unfinished tree. ranks: those that it has reached, the root first; edges: (from, to), in this order."""

    weight: int
    ranks: list[int]
    edges: list[tuple[int, int]] = field(default_factory=list)


def grow_trees(ranks: int, capacities: dict, roots: dict[int, int]) -> list[Growing]:
    """Return spanning trees from each root within the capacities; their weights add up to roots[root].

    Raises ValueError if the capacities are too small for this number of trees.
    """
    left = dict(capacities)
    trees = [Growing(weight, [root]) for root, weight in roots.items() if weight]
    finished = []
    while trees:
        tree = trees[0]
        if len(tree.ranks) == ranks:
            finished.append(trees.pop(0))
            continue
        edge, weight = _next_link(ranks, left, tree, trees[1:])
        if weight < tree.weight:
            trees.append(Growing(tree.weight - weight, list(tree.ranks), list(tree.edges)))
            tree.weight = weight
        tree.ranks.append(edge[1])
        tree.edges.append(edge)
        left[edge] -= weight
    return finished


def _next_link(ranks, left, tree, others):
    """Return (first link, from the root outward, by which the tree may grow; its weight)."""
    for x in tree.ranks:
        for (a, y), capacity in left.items():
            if a == x and capacity and y not in tree.ranks:
                if weight := min(tree.weight, capacity, _room(ranks, left, x, y, others)):
                    return (x, y), weight
    raise ValueError(f"the tree of ranks {tree.ranks} cannot grow: the links have no capacity left for it")


def _room(ranks, left, x, y, others) -> int:
    """Return how much of x → y the other trees do not need."""
    groups: dict[frozenset, int] = {}
    for other in others:
        if len(other.ranks) < ranks:
            groups[frozenset(other.ranks)] = groups.get(frozenset(other.ranks), 0) + other.weight
    more = {}
    for node, (reached, weight) in enumerate(groups.items(), ranks):
        more[x, node] = weight
        more |= {(node, rank): None for rank in reached}
    nodes = ranks + len(groups)
    network = Capacities(nodes, {link: c for link, c in left.items() if c}).with_links(nodes, more)
    return max(0, network.flow(x, y) - sum(groups.values()))
