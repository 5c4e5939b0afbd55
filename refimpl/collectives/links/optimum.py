"""The rate of the fastest allgather on a network, and the cut that proves that no schedule is faster.

    1/x = max over S of |ranks in S| / (rate out of S),   S: nodes, but not all ranks;   N ranks share at rate N x

because the data of the ranks in S must leave S. It is found by Newton's method with fractions: for each guess find a
cut with a larger ratio, which is the next guess. Two rounds suffice for all named networks.
"""

from fractions import Fraction
from math import gcd, lcm

from refimpl.collectives.links.flow import Capacities
from refimpl.collectives.links.graph import Links


def whole_rates(links: Links) -> tuple[dict[tuple[int, int], int], int]:
    """Return (the rates as integers, the factor by which they were multiplied)."""
    factor = lcm(*(rate.denominator for rate in links.rates.values()))
    return {link: int(rate * factor) for link, rate in links.rates.items()}, factor


def slowest_cut(links: Links) -> tuple[Fraction, frozenset[int]]:
    """Return (1/x, a cut S with |ranks in S| / (rate out of S) = 1/x)."""
    def ratio(cut):
        return Fraction(sum(node < links.ranks for node in cut)) / links.out_of(set(cut))

    everything = frozenset(range(links.ranks + links.switches))
    worst = max((everything - {rank} for rank in range(links.ranks)), key=ratio)
    while True:
        cuts = _worse_cuts(links, ratio(worst))
        if not cuts:
            return ratio(worst), worst
        worst = max(cuts, key=ratio)


def _worse_cuts(links, guess):
    """Return cuts with a larger ratio than guess = p / q: N flows of q do not fit through rates times p."""
    rates, factor = whole_rates(links)
    p, q = (guess / factor).as_integer_ratio()
    source = links.ranks + links.switches
    network = Capacities(source + 1, {link: rate * p for link, rate in rates.items()}).with_links(
        source + 1, {(source, rank): q for rank in range(links.ranks)})
    found = []
    for rank in range(links.ranks):
        flow, side = network.cut(source, rank)
        if flow < links.ranks * q:
            found.append(frozenset(side - {source}))
    return found


def whole_trees(links: Links, inverse: Fraction) -> tuple[int, Fraction, dict[tuple[int, int], int]]:
    """Return (k, U, capacities): k trees from each root, and U times the rates, all integers; each tree carries 1/U."""
    p, q = inverse.as_integer_ratio()
    rates, factor = whole_rates(links)
    scale = Fraction(p * factor, gcd(q * factor, *rates.values()))  # the least that makes U c and k = U q / p whole
    return int(scale / inverse), scale, {link: int(rate * scale) for link, rate in links.rates.items()}


def fewer_trees(links: Links, k: int) -> tuple[Fraction, dict[tuple[int, int], int]]:
    """Return (U, capacities) of the fastest allgather with k trees of equal weight from each root.

    Capacities are ⌊U c⌋ for the least U with which the trees fit. Links with the capacity 0 are left out.
    """
    inverse, _ = slowest_cut(links)
    candidates = sorted({Fraction(n) / rate for rate in set(links.rates.values())
                         for n in range(int(k * inverse * rate), int(4 * k * inverse * rate) + 2 + k)})
    low, high = 0, len(candidates) - 1
    while low < high:
        middle = (low + high) // 2
        if _fits(links, k, candidates[middle]):
            high = middle
        else:
            low = middle + 1
    return candidates[low], _floored(links, candidates[low])


def _floored(links, scale):
    floored = {link: int(rate * scale) for link, rate in links.rates.items()}
    return {link: rate for link, rate in floored.items() if rate}


def _fits(links, k, scale):
    capacities, source = _floored(links, scale), links.ranks + links.switches
    network = Capacities(source + 1, capacities).with_links(source + 1, {(source, r): k for r in range(links.ranks)})
    return all(network.flow(source, rank) >= k * links.ranks for rank in range(links.ranks))
