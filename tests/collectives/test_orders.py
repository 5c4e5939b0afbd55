"""The order of a schedule's sums, and the sums that every order gives."""

import itertools

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, make_schedule, prove, run_local
from refimpl.collectives.exactness import contributions
from refimpl.collectives.orders import (
    Addition, add_in_order, additions, all_sums, orders, sum_trees, tree_of, tree_text,
)
from refimpl.transport.machines import in_blocks


def unordered(tree):
    """A tree without left and right."""
    return frozenset(map(unordered, tree)) if isinstance(tree, tuple) else tree


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("ranks", [1, 4, 5])
def test_the_tree_of_a_schedule_gives_the_bits_of_its_run(name, ranks):
    if name == "halving-doubling" and ranks == 5:
        pytest.skip("halving-doubling wants a power of two")
    schedule = make_schedule(name, ranks, ranks, machines=in_blocks(ranks, 2) if name == "hierarchical" else None)
    arrays = contributions(ranks, "float32", 4 * schedule.chunks, 0)[0]
    result, bounds = run_local(schedule, arrays, in_place=False)[0], schedule.bounds(4 * schedule.chunks)
    for tree, start, stop in zip(sum_trees(schedule), bounds, bounds[1:]):
        np.testing.assert_array_equal(add_in_order(tree, [a[start:stop] for a in arrays]), result[start:stop])


def test_canonical_schedules_have_the_microbatch_tree_and_a_ring_of_four_another_for_each_chunk():
    for ranks, leaves in itertools.product((1, 2, 3, 4), (4, 7, 8)):
        for name in ("direct", "ring"):
            schedule = make_schedule(name, ranks, leaves)
            alike = {unordered(tree) for tree in sum_trees(schedule)} == {unordered(tree_of(range(leaves)))}
            assert alike == prove(schedule).canonical, (name, ranks, leaves)
    assert len({unordered(tree) for tree in sum_trees(make_schedule("ring", 4, 8))}) == 4
    assert tree_text(tree_of(range(7))) == "((0 + 1) + (2 + 3)) + ((4 + 5) + 6)"


def test_every_order_is_tried():
    values = np.array([1, 2.0**-24, 2.0**-24], "float32")
    assert all_sums(values) == {1.0: 2, 1 + 2.0**-23: 1}
    for count in range(1, 8):
        assert sum(all_sums(np.ones(count, "float16")).values()) == orders(count)
    assert [orders(n) for n in (1, 2, 3, 4, 8)] == [1, 1, 3, 15, 135135]
    values = (np.array([0.3, -7.1, 2.2, 6.9, 0.01, -2.4]) * 10).astype("float32")
    found = all_sums(values)
    assert list(found) == sorted(found) and len(found) > 2
    for order in itertools.permutations(range(6)):
        total = values[order[0]]
        for i in order[1:]:
            total = total + values[i]
        assert float(total) in found


def test_additions_one_by_one():
    values, big = np.array([2.0**24, 1, 1], "float32"), 2.0**24
    assert additions(((0, 1), 2), values) == [Addition(big, 1, big + 1, big)] * 2
    assert additions((0, (1, 2)), values) == [Addition(1, 1, 2, 2), Addition(big, 2, big + 2, big + 2)]
    assert additions(0, values) == []


def test_what_has_no_tree_or_too_many_orders_is_refused():
    with pytest.raises(ValueError, match="of kind allgather"):
        sum_trees(make_schedule("ring", 2, 2, "allgather"))
    for values in (np.zeros(11), np.zeros((2, 2)), np.array([1, 2]), np.zeros(0)):
        with pytest.raises(ValueError, match="every order of 1 to 10"):
            all_sums(values)
