"""Pictures of sums say in words and numbers what they draw, and draw the same bytes again."""

import numpy as np

from refimpl.collectives import make_schedule
from refimpl.collectives.orders import orders, sum_trees, tree_of
from refimpl.pictures.sums import draw_orders, draw_roundings, draw_sum_trees, sorted_tree, ulps_off

NUMBERS = np.array([1.3, -0.7, 0.2, 2.9, -1.1, 0.4], "float32")


def test_roundings_tell_every_addition():
    big = 2.0**24
    drawn = draw_roundings(np.array([big, 1, 1], "float32"), {"left": ((0, 1), 2), "right": (0, (1, 2))},
                           [big - 1, big, big + 2])
    assert drawn.alt.endswith("left gives 16,777,216; right gives 16,777,218")
    assert len(drawn.numbers.splitlines()) == 1 + 4 and "far to the left" in drawn.svg


def test_orders_are_counted_and_marked():
    drawn = draw_orders(NUMBERS, {"the tree": tree_of(range(6)), "again": tree_of(range(6))})
    counted = [int(line.split()[-1].replace(",", "")) for line in drawn.numbers.splitlines()[1:]]
    assert sum(counted) == orders(6) and f"give {len(counted)} different sums" in drawn.alt
    assert drawn.alt.endswith(f"the tree, again: {ulps_off(NUMBERS, tree_of(range(6))):+g}")
    assert ulps_off(np.array([1, 2, 3], "float32"), (0, (1, 2))) == 0
    assert ulps_off(np.array([2.0**24, 1, 1], "float32"), ((0, 1), 2)) == -1


def test_trees_are_drawn_by_their_first_leaf_and_canonical_ones_are_one():
    lines = {name: [make_schedule(name, ranks, 8) for ranks in (1, 3, 8)] for name in ("ring", "direct")}
    drawn = draw_sum_trees(lines, 8)
    assert "ring on 1, 3, 8 ranks, different trees: 3; direct on 1, 3, 8 ranks, different trees: 1" in drawn.alt
    assert drawn.svg == draw_sum_trees(lines, 8).svg
    assert sorted_tree(sum_trees(make_schedule("direct", 8, 8))[7]) == tree_of(range(8))
