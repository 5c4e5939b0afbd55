"""The allocations of a machine, and their rings."""

from itertools import combinations, groupby, permutations, product

import numpy as np
from scipy.optimize import LinearConstraint, milp

from refimpl.collectives.links import Links, named_links
from refimpl.collectives.links.flow import Capacities
from refimpl.collectives.links.optimum import whole_rates


def allocations(name: str, sizes=range(3, 9)) -> list[Links]:
    """Return the connected allocations of these numbers of GPUs; only one of those that differ only in names. Local."""
    whole, found = named_links(name), {}
    for size in sizes:
        for chosen in combinations(range(whole.ranks), size):
            try:
                links = whole.only(list(chosen))
            except ValueError:
                continue
            found.setdefault(_shape(links), links)
    return list(found.values())


def _shape(links):
    table = [[int(links.rates.get((a, b), 0)) for b in range(links.ranks)] for a in range(links.ranks)]
    order = sorted(range(links.ranks), key=lambda a: sorted(table[a]))
    groups = [list(group) for _, group in groupby(order, key=lambda a: sorted(table[a]))]
    orders = ([rank for group in groups for rank in group] for groups in product(*map(permutations, groups)))
    return max(tuple(table[a][b] for a in order for b in order) for order in orders)


def most_rings(links: Links) -> int:
    """Return how many rings of rate 1 fit into the links at once, each in both directions. Local."""
    rings = [(0, *rest) for rest in permutations(range(1, links.ranks)) if rest[0] < rest[-1]
             and all(pair in links.rates for pair in zip((0, *rest), (*rest, 0)))]
    if not rings:
        return 0
    pairs = [(a, b) for a, b in links.rates if a < b]
    used = np.array([[any({a, b} == {*pair} for pair in zip(ring, (*ring[1:], 0))) for ring in rings]
                     for a, b in pairs], float)
    found = milp(np.full(len(rings), -1.0), integrality=np.ones(len(rings)),
                 constraints=LinearConstraint(used, ub=[float(links.rates[pair]) for pair in pairs]))
    return round(-found.fun)


def broadcast_rate(links: Links) -> int:
    """Return the rate of trees packed from the best root: its smallest cut to any rank. Local."""
    rates, _ = whole_rates(links)  # counts of NVLinks are whole already
    network, ranks = Capacities(links.ranks, rates), range(links.ranks)
    return max(min(network.flow(root, rank) for rank in ranks if rank != root) for root in ranks)
