r"""Double binary tree (Sanders, Speck & Träff 2009): half of the vector over each of two trees.

    first tree, N = 8:      0            The second tree is the first one mirrored (N even: role N - 1 - r) or shifted
                            |            by one (N odd: role r - 1). So the leaves of one are inner ranks of the other,
                            4            and no rank but 0 (N odd) is an inner rank of both: each adds about n, not the
                          /   \          2 n of an inner rank of one tree.
                        2       6
                       / \     / \       In a round each rank receives and sends at most one message; of two children,
                      1   3   5   7      the first that is ready sends first.

It takes about 4 log2(N) rounds without pipelining. A parent adds its children's vectors to its own, one after the
other. This order is fixed, but from N = 3 on it is not the reproducible one.
"""

from refimpl.collectives.algorithms.halves import add_own, mirror, one_node_each
from refimpl.collectives.schedule import Round, Sum, Transfer


def parents_in_trees(ranks: int) -> list[dict[int, int]]:
    """Return rank -> parent for both trees; roots have no entry. Local."""
    def parent(role):
        low = role & -role
        above = role ^ low | low << 1
        return above if above < ranks else role ^ low

    second = [ranks - 1 - role if ranks % 2 == 0 else (role + 1) % ranks for role in range(ranks)]
    return [{rank_of[role]: rank_of[parent(role)] for role in range(1, ranks)} for rank_of in (range(ranks), second)]


def reduce_scatter(inputs):
    """Yield the rounds of both reduces; return the owners: the two roots. inputs[r]: tree nodes of rank r."""
    ranks = len(inputs)
    yield from add_own("double-tree", inputs, 2)
    trees = parents_in_trees(ranks)
    waiting = [dict(tree) for tree in trees]  # rank -> parent, of those that have not sent yet
    while any(waiting):
        sending, receiving, moves = set(), set(), []
        for chunk, tree in enumerate(waiting):
            parents = set(tree.values())
            for rank, parent in tree.items():
                if rank not in parents and rank not in sending and parent not in receiving:
                    sending.add(rank)
                    receiving.add(parent)
                    moves.append((rank, parent, chunk))
        for rank, _, chunk in moves:
            del waiting[chunk][rank]
        yield Round(tuple(Transfer(a, b, c, c + 1, target=len(inputs[b])) for a, b, c in moves),
                    tuple(Sum(b, 0, len(inputs[b]), c, c + 1) for _, b, c in moves))
    return (0, ranks - 1 if ranks % 2 == 0 else 1 % ranks)


def allgather(ranks):
    """Yield the rounds of both broadcasts from the roots."""
    yield from mirror(reduce_scatter(one_node_each(ranks)))
