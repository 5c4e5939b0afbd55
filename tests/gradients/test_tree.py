"""The microbatch tree: every split of the leaves over ranks gives one expression."""

import pytest

from refimpl.gradients import Node, TreeSum, cover, fold, leaves_of


def join(left, right):
    return f"({left}+{right})"


def reference(lo, hi):
    """The tree by its recursive definition: split at the largest power of two below the count."""
    if hi - lo == 1:
        return str(lo)
    half = 1 << ((hi - lo - 1).bit_length() - 1)
    return join(reference(lo, lo + half), reference(lo + half, hi))


def test_the_drawing():
    assert reference(0, 6) == "(((0+1)+(2+3))+(4+5))"


@pytest.mark.parametrize("leaves", [*range(1, 10), 16, 17, 33])
def test_every_number_of_ranks_forms_the_same_tree(leaves):
    for ranks in range(1, leaves + 3):
        parts, seen = [], []
        for rank in range(ranks):
            tree = TreeSum(join)
            for leaf in leaves_of(rank, ranks, leaves):
                tree.push(Node(0, leaf), str(leaf))
                seen.append(leaf)
            assert [node for node, _ in tree.parts] == cover(leaves_of(rank, ranks, leaves))
            assert len(tree.parts) <= 2 * leaves.bit_length()
            parts += tree.parts
        assert seen == list(range(leaves))
        assert fold(parts, join) == reference(0, leaves)


def test_aligned_ranks_hold_one_node_each():
    assert [cover(leaves_of(r, 4, 8)) for r in range(4)] == [[Node(1, r)] for r in range(4)]
    assert cover(leaves_of(1, 3, 8)) == [Node(1, 1), Node(0, 4)]


def test_no_leaves_no_total():
    assert fold([], join) is None and cover(range(3, 3)) == []
