"""Recursive halving-doubling for any number of ranks (Rabenseifner 2004): neighbours stand in for surplus ranks.

    N = 6 = 4 + 2:  0 1   2 3   4   5      0 and 1 exchange halves of the vector and add, then 1 sends its half to 0;
                    0     2     4   5      2 and 3 do the same. The four that remain halve and double. Then 0 and 2
                                           send the whole sum to 1 and 3.

It takes 2 floor(log2 N) + 3 rounds if N is not a power of two. Let C be the power of two below N. The surplus ranks
("folded") send n bytes, the others 2 (C - 1) / C * n, and those with a folded partner 3 n / 2 more. The order is
reproducible for N = 2**a - 2**b (3, 6, 7, 12, ...; not 5), where the folded pairs and the other ranks are nodes of the
tree.
"""

from refimpl.collectives.algorithms.halves import add_own, mirror
from refimpl.collectives.algorithms.halving_doubling import halving, owners_of
from refimpl.collectives.schedule import Round, Sum, Transfer


def folding(ranks: int):
    """Return (pairs of ranks that become one, the ranks that continue: a power of two of them). Local."""
    surplus = ranks - (1 << ranks.bit_length() - 1)
    pairs = [(rank, rank + 1) for rank in range(0, 2 * surplus, 2)]
    return pairs, [keeper for keeper, _ in pairs] + list(range(2 * surplus, ranks))


def _fold(pairs, scratch, chunks):
    middle = chunks // 2
    if pairs:
        yield Round(
            tuple(t for a, b in pairs for t in (Transfer(a, b, middle, chunks, target=scratch[b]),
                                                Transfer(b, a, 0, middle, target=scratch[a]))),
            tuple(s for a, b in pairs for s in (Sum(a, 0, scratch[a], 0, middle),
                                                Sum(b, 0, scratch[b], middle, chunks))),
        )
        yield Round(tuple(Transfer(b, a, middle, chunks) for a, b in pairs))


def reduce_scatter(inputs):
    """Yield the rounds; return the owners. inputs[r]: tree nodes of rank r; several are added up first."""
    pairs, members = folding(len(inputs))
    scratch = [len(nodes) for nodes in inputs]
    yield from add_own("rabenseifner", inputs, len(members))
    yield from _fold(pairs, scratch, len(members))
    yield from halving(members, scratch, len(members))
    return owners_of(members)


def allgather(ranks):
    """Yield the doubling rounds, and the round in which folded ranks receive the sum."""
    pairs, members = folding(ranks)
    yield from mirror(halving(members, [1] * ranks, len(members)))
    if pairs:
        yield Round(tuple(Transfer(a, b, 0, len(members)) for a, b in pairs))
