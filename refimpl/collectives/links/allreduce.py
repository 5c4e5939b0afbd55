"""The fastest allreduce: every part of the vector is added up along one tree and handed out along another.

Where links carry as much both ways and there are no switches, one tree does both. By Tutte and Nash-Williams the best
rate is then

    min over partitions of the ranks of   (rate of the links between the parts) / (parts - 1)

since each spanning tree has at least parts - 1 links between them. Otherwise each link's rate is divided between sum
and answer, and so are the roots, as is best; a linear programme's prices prove the rate.
"""

from bisect import bisect_left
from fractions import Fraction
from math import lcm

from refimpl.collectives.links.graph import Links
from refimpl.collectives.links.optimum import whole_rates
from refimpl.collectives.links.programme import Programme


class Halves:
    """How an allreduce divides the links. All numbers are whole: rates times ``scale``.

    rate: the best.  proof: why, in words.  roots: rank -> trees.  outward, inward: capacities for answer and sum; None:
    the sum takes the answer's trees backwards.
    """

    def __init__(self, rate, proof, scale, roots, outward, inward):
        self.rate, self.proof, self.scale = rate, proof, scale
        self.roots, self.outward, self.inward = roots, outward, inward


def halves(links: Links, trees: int | None = None) -> Halves:
    """Return the best division; with at most so many trees, all of one weight. Local.

    Raises ArithmeticError where the solver's numbers prove nothing, and ValueError for a number of trees where one tree
    does not do both.
    """
    if links.symmetric and not links.switches:
        best = _one_tree_for_both(links)
        if trees is None or trees >= best.roots[0]:
            return best
        fewer = (_so_many_trees(links, best, count) for count in range(1, trees + 1))
        return max(fewer, key=lambda found: found.roots[0] / found.scale)
    if trees is not None:
        raise ValueError("the number of an allreduce's trees can be given where links carry as much both ways and there "
                         "are no switches")
    return _divided(links)


def _so_many_trees(links, best, trees):
    """Find the least scale with which so many trees fit into the links' rates times it, rounded down."""
    least = trees / best.rate
    scales = sorted({Fraction(n) / rate for rate in set(links.rates.values())
                     for n in range(int(least * rate), int(4 * least * rate) + 2 + trees)} - {Fraction(0)})
    ways = [("way", a, b) for a, b in links.rates]

    def found(scale):
        capacities = {link: int(rate * scale) for link, rate in links.rates.items()}
        return _oriented(links.ranks, capacities, trees).solve_whole(ways)

    scale = scales[bisect_left(scales, True, key=lambda scale: found(scale) is not None)]
    outward = {name[1:]: amount for name, amount in found(scale).items() if amount}
    return Halves(best.rate, best.proof, scale, {0: trees}, outward, None)


def _one_tree_for_both(links):
    parts = _partition(links)
    between = sum(rate for (a, b), rate in links.rates.items() if a < b and parts[a] != parts[b])
    count = len(set(parts.values()))
    rate = Fraction(between) / (count - 1)
    _, factor = whole_rates(links)
    scale = lcm(rate.denominator, factor)
    programme = _oriented(links.ranks, {link: most * scale for link, most in links.rates.items()}, rate * scale)
    ways = [("way", a, b) for a, b in links.rates]
    found = programme.solve_whole(ways)
    if found is None:
        raise ArithmeticError(f"{links.name}: no whole numbers were found that divide the links both ways")
    groups = [[rank for rank in parts if parts[rank] == part] for part in sorted(set(parts.values()))]
    proof = (f"links of {between} join the {count} parts {' '.join('{' + ', '.join(map(str, g)) + '}' for g in groups)}"
             f", and a tree needs {count - 1} of them")
    outward = {(a, b): found["way", a, b] for a, b in links.rates if found["way", a, b]}
    return Halves(rate, proof, scale, {0: int(rate * scale)}, outward, None)


def _oriented(ranks, rates, amount=None):
    """Return the programme whose variables "way" divide each link between its two directions.

    amount: what must flow from rank 0 to each other; None: as much as can, the variable "rate".
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
    """Return rank -> part, of a partition that no packing of trees can beat: joined by links that have no price."""
    programme = _oriented(links.ranks, links.rates)
    prices = programme.solve()[2]
    parts = {rank: rank for rank in range(links.ranks)}
    for i, (terms, value) in enumerate(programme.most):
        if value and i not in prices:
            a, b = next(iter(terms))[1:]
            old, new = parts[b], parts[a]
            parts = {rank: new if part == old else part for rank, part in parts.items()}
    return parts


def _divided(links):
    """Let a linear programme divide links and roots between sum and answer."""
    ranks = range(links.ranks)
    roots = [("root", rank) for rank in ranks]
    programme = Programme(roots)
    for (a, b), rate in links.rates.items():
        programme.add(programme.most, {("out", a, b): 1, ("in", a, b): 1}, rate)
    for half in ("out", "in"):
        add_half(programme, links, half, roots)
    values, rate, prices = programme.solve()
    wanted = [*roots, *((half, *link) for half in ("out", "in") for link in links.rates)]
    scale = lcm(*(values[name].denominator for name in wanted))
    outward, inward = ({link: int(values[half, *link] * scale) for link in links.rates if values[half, *link]}
                       for half in ("out", "in"))
    proof = f"at these prices of links a way to a root and back costs 1 at least: {priced(links, prices)}"
    return Halves(rate, proof, scale, {rank: int(values["root", rank] * scale) for rank in ranks
                                       if values["root", rank]}, outward, inward)


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
