"""The plain microbatch tree against the fast one: the same nodes, the same expressions."""

import pytest

from refimpl import gradients
from refimpl.plain.adding.tree import add_up, cover, form_nodes, microbatches_of, nodes_by_rank


def text(left, right):
    return f"({left}+{right})"


def node_names(nodes, microbatches):
    """(start, stop) of the fast tree's nodes; one at the right edge reaches over leaves that do not exist."""
    return [(n.first_leaf, min(n.first_leaf + 2**n.level, microbatches)) for n in nodes]


def test_nodes_and_sums_are_the_fast_ones():
    for microbatches in range(1, 41):
        leaves = [str(v) for v in range(microbatches)]
        tree = gradients.TreeSum(text)
        for v in range(microbatches):
            tree.push(gradients.Node(0, v), leaves[v])
        for ranks in range(1, microbatches + 3):
            formed = {}
            for rank in range(ranks):
                own = gradients.leaves_of(rank, ranks, microbatches)
                start, stop = microbatches_of(rank, ranks, microbatches)
                assert range(start, stop) == own
                assert cover(start, stop) == node_names(gradients.cover(own), microbatches)
                formed |= form_nodes(start, leaves[start:stop], text)
            assert [node for nodes in nodes_by_rank(ranks, microbatches) for node in nodes] == list(formed)
            assert add_up(0, microbatches, formed, text) == tree.total()


def test_any_node_has_one_expression():
    leaves = {(v, v + 1): str(v) for v in range(6)}
    assert add_up(0, 6, leaves, text) == "(((0+1)+(2+3))+(4+5))"
    assert add_up(0, 6, leaves | {(2, 4): "own"}, text) == "(((0+1)+own)+(4+5))"


def test_what_is_missing_is_not_made_up():
    with pytest.raises(ValueError, match="microbatch 5 is missing"):
        add_up(0, 6, {(0, 4): "a", (4, 5): "b"}, text)
