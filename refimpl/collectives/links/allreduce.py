"""The fastest allreduce: every part of the vector is added up along one tree, and the sum is sent along another.

If links have equal rates in both directions and there are no switches, one tree does both. By Tutte and Nash-Williams
the best rate is then

    min over partitions of the ranks of   (rate of the links between the parts) / (parts - 1)

because each spanning tree has at least parts - 1 links between them. Otherwise a linear programme divides each link's
rate, and the roots, between sum and answer. Its dual prices prove the rate.
"""

from bisect import bisect_left
from fractions import Fraction
from itertools import count
from math import lcm

from refimpl.collectives.links.graph import Links
from refimpl.collectives.links.optimum import whole_rates
from refimpl.collectives.links.programme import Programme


class Halves:
    """How an allreduce divides the links. All numbers are integers: rates times ``scale``.

    rate: the best.  proof: the reason, as text.  roots: rank -> trees.  outward, inward: capacities for the answer and
    the sum; inward None: the sum uses the answer's trees backwards.
    """

    def __init__(self, rate, proof, scale, roots, outward, inward):
        self.rate, self.proof, self.scale = rate, proof, scale
        self.roots, self.outward, self.inward = roots, outward, inward


def halves(links: Links, trees: int | None = None) -> Halves:
    """Return the best division. trees: the most trees, of equal weight; None: any. Raises ArithmeticError. Local."""
    best = _one_tree_for_both(links) if links.symmetric and not links.switches else _divided(links)
    if trees is None or trees >= sum(best.roots.values()):
        return best
    fewer = (_so_many_trees(links, best, number) for number in range(1, trees + 1))
    return max(fewer, key=lambda found: sum(found.roots.values()) / found.scale)


def _so_many_trees(links, best, trees):
    """Find the smallest scale with which this many trees fit into the links' rates times the scale, rounded down."""
    least = trees / best.rate

    def found(scale):
        capacities = {link: int(rate * scale) for link, rate in links.rates.items()}
        if best.inward is None:
            return _oriented(links.ranks, capacities, trees).solve_whole([("way", *link) for link in links.rates])
        programme, names = _dividing(links, capacities)
        programme.add(programme.equal, dict.fromkeys(programme.goal, 1), trees)
        return programme.solve_whole(names)

    most = next(4 << more for more in count() if found((4 << more) * least) is not None)
    scales = sorted({Fraction(n) / rate for rate in set(links.rates.values())
                     for n in range(int(least * rate), int(most * least * rate) + 2)} - {Fraction(0)})
    scale = scales[bisect_left(scales, True, key=lambda scale: found(scale) is not None)]
    whole = found(scale)
    if best.inward is None:
        return Halves(best.rate, best.proof, scale, {0: trees}, _part(whole, "way"), None)
    return Halves(best.rate, best.proof, scale, {rank: amount for (rank,), amount in _part(whole, "root").items()},
                  _part(whole, "out"), _part(whole, "in"))


def _part(whole, kind) -> dict:
    """Return the values above 0 of the variables of one kind, by the rest of their names."""
    return {name[1:]: amount for name, amount in whole.items() if name[0] == kind and amount}


def _one_tree_for_both(links):
    parts = _partition(links)
    between = sum(rate for (a, b), rate in links.rates.items() if a < b and parts[a] != parts[b])
    many = len(set(parts.values()))
    rate = Fraction(between) / (many - 1)
    _, factor = whole_rates(links)
    scale = lcm(rate.denominator, factor)
    programme = _oriented(links.ranks, {link: most * scale for link, most in links.rates.items()}, rate * scale)
    ways = [("way", a, b) for a, b in links.rates]
    found = programme.solve_whole(ways)
    if found is None:
        raise ArithmeticError(f"{links.name}: no whole numbers were found that divide the links both ways")
    groups = [[rank for rank in parts if parts[rank] == part] for part in sorted(set(parts.values()))]
    named = " ".join("{" + ", ".join(map(str, group)) + "}" for group in groups)
    proof = f"the links between the {many} parts {named} carry {between} in all, and a tree of rate 1 needs {many - 1}"
    return Halves(rate, proof, scale, {0: int(rate * scale)}, _part(found, "way"), None)


def _oriented(ranks, rates, amount=None):
    """Return the programme whose variables "way" divide each link between its two directions.

    amount: the flow from rank 0 to each other rank; None: the largest possible, the variable "rate".
    """
    programme = Programme(["rate"])
    for (a, b), rate in rates.items():
        if a < b:
            programme.add(programme.most, {("way", a, b): 1, ("way", b, a): 1}, rate)
    for rank in range(1, ranks):
        programme.add_flow(rank, [*rates], lambda a, b: ("way", a, b), 0, rank, ["rate"])
    if amount is not None:
        programme.add(programme.equal, {"rate": 1}, amount)
    return programme


def _partition(links) -> dict[int, int]:
    """Return rank -> part, for a partition that proves the rate: parts are joined by links with the price 0."""
    programme = _oriented(links.ranks, links.rates)
    prices = programme.solve()[2]
    parts = {rank: rank for rank in range(links.ranks)}
    for i, (terms, value) in enumerate(programme.most):
        if value and i not in prices:
            a, b = next(iter(terms))[1:]
            old, new = parts[b], parts[a]
            parts = {rank: new if part == old else part for rank, part in parts.items()}
    return parts


def _dividing(links, rates):
    """Return the programme whose variables divide links and roots between sum and answer, and their names."""
    roots = [("root", rank) for rank in range(links.ranks)]
    programme = Programme(roots)
    for (a, b), rate in rates.items():
        programme.add(programme.most, {("out", a, b): 1, ("in", a, b): 1}, rate)
    for half in ("out", "in"):
        add_half(programme, links, half, roots)
    return programme, [*roots, *((half, *link) for half in ("out", "in") for link in rates)]


def _divided(links):
    """Let a linear programme divide links and roots between sum and answer."""
    programme, names = _dividing(links, links.rates)
    values, rate, prices = programme.solve()
    scale = lcm(*(values[name].denominator for name in names))
    whole = {name: int(values[name] * scale) for name in names}
    proof = f"with these prices of links every way to a root and back costs at least 1: {priced(links, prices)}"
    return Halves(rate, proof, scale, {rank: amount for (rank,), amount in _part(whole, "root").items()},
                  _part(whole, "out"), _part(whole, "in"))


def add_half(programme: Programme, links: Links, half: str, roots: list):
    """Let trees between the roots and all ranks fit into the variables (half, a, b) of links. roots: their variables.

    half: "out", away from the roots, or "in", to them.
    """
    ranks, source = range(links.ranks), "source"
    for switch in range(links.ranks, links.ranks + links.switches):
        terms = {(half, a, b): 1 if b == switch else -1 for a, b in links.rates if switch in (a, b)}
        programme.add(programme.equal, terms)

    def turn(a, b):
        return (a, b) if half == "out" else (b, a)

    def room(a, b):
        return roots[b] if a == source else (half, *turn(a, b))

    flows = [(source, rank) for rank in ranks] + [turn(a, b) for a, b in links.rates]
    for rank in ranks:
        programme.add_flow((half, rank), flows, room, source, rank, roots)


def priced(links: Links, prices) -> str:
    """Return the links' prices in words. prices: number of the link -> price."""
    return ", ".join(f"{a} to {b} {prices[i]}" for i, (a, b) in enumerate(links.rates) if i in prices)
