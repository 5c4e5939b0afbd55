"""Blink's packing, plainly: shortest trees as by brute force, amounts that fit, six trees where a hundred were."""

import itertools

import numpy as np
import pytest

from refimpl.plain.collectives.tree_packing import (
    DGX_1V, directed, few_trees, find_cycle, main, many_trees, shortest_tree)


def trees_from(root, nodes, links):
    """Yield every spanning tree from the root, by brute force: one link into each other node, and no cycle."""
    others = [node for node in nodes if node != root]
    for chosen in itertools.product(*([link for link in links if link[1] == node] for node in others)):
        if find_cycle({b: a for a, b in chosen}) is None:
            yield chosen


@pytest.mark.parametrize("seed", range(8))
def test_the_shortest_tree_is_that_of_all_trees(seed):
    draw, nodes = np.random.default_rng(seed), range(5)
    lengths = {(a, b): int(draw.integers(1, 12)) for a in nodes for b in nodes if a != b and draw.random() < 0.8}
    lengths |= {(a, a + 1): 12 for a in range(4)}  # all can be reached
    found = shortest_tree(set(nodes), 0, lengths)
    assert len(found) == 4 and {b for _, b in found} == {1, 2, 3, 4} and find_cycle({b: a for a, b in found}) is None
    assert sum(lengths[link] for link in found) == min(
        sum(lengths[link] for link in tree) for tree in trees_from(0, nodes, lengths))


@pytest.mark.parametrize("root", [0, 6])
def test_many_trees_fit_and_few_of_them_reach_the_best_rate(root):
    rates = directed(DGX_1V)
    many = many_trees(rates, root)
    few = few_trees(rates, many)
    for trees in (many, few):
        for link, rate in rates.items():
            assert sum(amount for tree, amount in trees.items() if link in tree) <= rate * (1 + 1e-12)
    assert 0.95 * 6 < sum(many.values()) <= 6 * (1 + 1e-12)
    assert sum(few.values()) == 6 and len(few) <= 6


def test_trees_that_do_not_fit_are_not_chosen():
    """Two trees over one link of one unit: the programme takes one of them."""
    trees = [frozenset({(0, 1), (1, 2)}), frozenset({(0, 1), (0, 2)})]
    assert sum(few_trees({(0, 1): 1, (1, 2): 1, (0, 2): 1}, trees).values()) == 1


def test_it_shows_six_trees(capsys):
    main({"01": 1, "12": 1, "02": 1})
    assert capsys.readouterr().out.startswith("root 0: ")
