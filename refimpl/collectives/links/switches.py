"""Replace links through a switch by links between ranks, so that trees have only ranks. The best rate stays the same.

    u → switch w → t   becomes   u → t with the capacity γ, as large as possible if every rank can still be reached

γ = min(rate u → w, rate w → t, F1 - R, F2 - R), R: the trees of all roots together (ForestColl, edge splitting):
    F1 = min over ranks v of the flow from u to w, with unlimited links from u to the roots' source and t, and v to w;
    F2 = min over ranks v of the flow from w to t, with unlimited links from w to the source, and from u and v to t.
"""

from refimpl.collectives.links.flow import Capacities, taken

Routes = dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]]
"""Link between two ranks -> [(capacity, the nodes on its way)]."""


def without_switches(ranks: int, switches: int, capacities: dict, roots: dict[int, int]) -> tuple[dict, Routes]:
    """Return (capacities between ranks, their routes). roots: rank -> trees that begin there."""
    capacities = dict(capacities)
    routes = {link: [(capacity, link)] for link, capacity in capacities.items()}
    for w in range(ranks, ranks + switches):
        for t in [b for a, b in capacities if a == w]:
            for u in [a for a, b in capacities if b == w]:
                if (w, t) not in capacities:
                    break
                gamma = _most(ranks, switches, capacities, roots, u, w, t) if u != t else 0
                if gamma:
                    _join(capacities, routes, u, w, t, gamma)
        for link in [link for link in capacities if w in link]:  # the other links lead back to their origin
            del capacities[link]
    return capacities, {link: routes[link] for link in capacities}


def _most(ranks, switches, capacities, roots, u, w, t) -> int:
    source, trees = ranks + switches, sum(roots.values())
    network = Capacities(source + 1, capacities).with_links(source + 1, {(source, r): k for r, k in roots.items()})
    most = min(capacities[u, w], capacities[w, t])
    for v in range(ranks):
        if most > 0:
            first = {(u, source): None, (u, t): None} | ({(v, w): None} if v != w else {})
            second = {(w, source): None, (u, t): None} | ({(v, t): None} if v != t else {})
            most = min(most, network.with_links(source + 1, first).flow(u, w) - trees,
                       network.with_links(source + 1, second).flow(w, t) - trees)
    return max(most, 0)


def _join(capacities, routes, u, w, t, gamma):
    """Replace the amount gamma of u → w → t by u → t, and store the route."""
    for first, second in _matched(taken(routes[u, w], gamma), taken(routes[w, t], gamma)):
        amount, way = first[0], first[1] + second[1][1:]
        routes.setdefault((u, t), []).append((amount, way))
    for link in ((u, w), (w, t)):
        capacities[link] -= gamma
        if not capacities[link]:
            del capacities[link]
    capacities[u, t] = capacities.get((u, t), 0) + gamma


def _matched(left, right):
    """Yield pairs of pieces of equal amounts, from two lists with the same sum."""
    right = list(right)
    for amount, one in reversed(list(left)):
        for used, other in taken(right, amount):
            yield (used, one), (used, other)
