r"""Recursive doubling: in round k the ranks r and r XOR 2**k exchange all they have, and both add (Thakur et al. 2005).

    r0 r1 r2 r3      0+1 0+1 2+3 2+3      every rank has the sum of all
     \X/   \X/       \__X___X__/

It takes log2(N) rounds, the fewest, and each rank sends log2(N) * n bytes. So it suits short vectors. If N is not a
power of two, surplus ranks first send their vector to a neighbour, and receive the sum at the end: 2 rounds more. Both
partners add the same two numbers, so all ranks get the same bits. The order is reproducible for a power of two, and if
the folded pairs are nodes of the tree (see rabenseifner.py). The vector is one chunk; no rank owns a part of it.
"""

from refimpl.collectives.algorithms.halves import add_own
from refimpl.collectives.algorithms.rabenseifner import folding
from refimpl.collectives.schedule import Round, Sum, Transfer


def recursive_doubling(inputs):
    """Yield the rounds; return the owner of the only chunk: rank 0, but all have it. inputs[r]: rank r's nodes."""
    pairs, members = folding(len(inputs))
    scratch = [len(nodes) for nodes in inputs]
    yield from add_own("recursive-doubling", inputs, 1)
    if pairs:
        yield Round(tuple(Transfer(b, a, 0, 1, target=scratch[a]) for a, b in pairs),
                    tuple(Sum(a, 0, scratch[a], 0, 1) for a, _ in pairs))
    for k in range(len(members).bit_length() - 1):
        partner = {rank: members[index ^ 1 << k] for index, rank in enumerate(members)}
        yield Round(tuple(Transfer(a, b, 0, 1, target=scratch[b]) for a, b in partner.items()),
                    tuple(Sum(rank, 0, scratch[rank], 0, 1) for rank in members))
    if pairs:
        yield Round(tuple(Transfer(a, b, 0, 1) for a, b in pairs))
    return (0,)
