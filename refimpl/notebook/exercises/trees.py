"""Exercises of lesson 11: the best rate of equal cards, a cut that proves a rate, trees packed into a triangle."""

from fractions import Fraction

from refimpl.collectives.links import Links, Tree, pack_trees
from refimpl.collectives.links.named import both_ways
from refimpl.collectives.links.pack import Packing
from refimpl.notebook.exercises import exercise, number, right, wrong

TRIANGLES = Links("two triangles", 6, 0, both_ways(
    [(0, 1, 1), (1, 2, 1), (2, 0, 1), (3, 4, 1), (4, 5, 1), (5, 3, 1), (2, 3, 2)]))
TRIANGLE = Links("a triangle", 3, 0, both_ways([(0, 1, 1), (1, 2, 1), (2, 0, 1)]))


check_rate = number(200, "in 1 s each card sends 300 Mbit: 1.5 times 200.", {
    300: "then each card would send one vector. What is the least that the busiest card must send?",
    150: "nearly: a rank need not send itself its own part; 2 (N - 1) / N vectors, not 2",
}, "how many vectors must the busiest card send? Divide the card's rate by that", apart=1e-6)
"""The best rate of an allreduce on 4 equal cards of 300 Mbit/s at a switch."""


@exercise
def check_parts(parts):
    """Check a division of the ranks of TRIANGLES that proves its best rate. parts: sets of ranks."""
    part_of = {rank: number for number, part in enumerate(parts) for rank in part}
    if sorted(rank for part in parts for rank in part) != [*range(TRIANGLES.ranks)]:
        return wrong("each of the ranks 0 to 5 must be in exactly one of the sets")
    if len(parts) < 2:
        return wrong("with one part there are no cables between parts: cut the ranks into two parts or more")
    between = sum(rate for (a, b), rate in TRIANGLES.rates.items() if a < b and part_of[a] != part_of[b])
    limit, best = Fraction(between) / (len(parts) - 1), pack_trees(TRIANGLES).best
    if limit == best:
        return right(f"no rate is higher than {limit}, and trees of that rate can be packed.")
    return wrong(f"your cut proves that no rate is higher than {between} / {len(parts) - 1}; another cut gives a lower "
                 "limit. A part may have several ranks: which cable is so wide that its ends may stay together?")


@exercise
def check_packing(trees):
    """Check trees that fill a triangle of cables. trees: (rate, its cables), with rates that are fractions."""
    found = []
    for place, (rate, cables) in enumerate(trees):
        ways = _from_rank_0([tuple(cable) for cable in cables])
        if ways is None:
            return wrong(f"tree {place}, {cables}, does not join the ranks 0, 1, 2 with two cables")
        found.append(Tree(0, Fraction(rate), ways))
    total, best = sum(tree.rate for tree in found), pack_trees(TRIANGLE).best
    for (a, b), part in Packing(TRIANGLE, "allgather", total, best, "", tuple(found)).load().items():
        both = part + sum(tree.rate for tree in found if (b, a) in tree.links())
        if both > 1:
            return wrong(f"the trees want {both} of the cable between {a} and {b}, and it has 1")
    if total < best:
        return wrong(f"they fit, and their rates add up to {total}. Which cable still has room?")
    return right(f"they fit, and no trees have a higher total rate than {best}.")


def _from_rank_0(cables):
    """Return the cables of a spanning tree of the triangle, parent first; None if they form no spanning tree."""
    reached, ways, left = {0}, [], list(cables)
    while left:
        at = next((cable for cable in left if len(reached & {*cable}) == 1), None)
        if at is None:
            return None
        left.remove(at)
        ways.append(at if at[0] in reached else at[::-1])
        reached |= {*at}
    return tuple(ways) if reached == {0, 1, 2} else None
