"""Which rows move when the partitions change: each exactly once, and the bytes of it."""

from itertools import product

import numpy as np
import pytest

from models import Variable
from refimpl.plan import make_plan
from refimpl.plan.repartition import moved_bytes, moves_of, served_bytes, with_partitions
from refimpl.server import Partitioning

VARIABLES = [Variable("words", (23, 3), sparse=True), Variable("weight", (4, 4)),
             Variable("bias", (23, 1), sparse=True)]
SCHEMES = list(product((1, 2, 5, 30), ("contiguous", "interleaved")))


def tables(parts):
    """Return each rank's table, its rows being their own global numbers."""
    return [parts.global_rows(r) for r in range(parts.ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("old", SCHEMES)
@pytest.mark.parametrize("new", SCHEMES)
def test_every_row_arrives_at_its_new_place(ranks, old, new):
    old, new = (Partitioning.round_robin(23, p, ranks, s) for p, s in (old, new))
    moves = [moves_of(old, new, r) for r in range(ranks)]
    before, after = tables(old), [np.full(new.rows_owned(r), -1) for r in range(ranks)]
    for source, target in product(range(ranks), repeat=2):
        assert (after[target][moves[target].arriving[source]] == -1).all()
        after[target][moves[target].arriving[source]] = before[source][moves[source].leaving[target]]
    assert all(np.array_equal(a, b) for a, b in zip(after, tables(new), strict=True))


def test_owners_of_any_order_and_ranks_without_rows():
    old, new = Partitioning(10, (3, 3, 0), 4), Partitioning(10, (1, 0, 3, 0), 4, "interleaved")
    moves = [moves_of(old, new, r) for r in range(4)]
    assert [sum(map(len, m.leaving)) for m in moves] == [old.rows_owned(r) for r in range(4)] == [4, 0, 0, 6]
    assert [sum(map(len, m.arriving)) for m in moves] == [new.rows_owned(r) for r in range(4)] == [5, 3, 0, 2]


def test_bytes_held_and_moved():
    plan = make_plan(VARIABLES, "hybrid", 3, 8, partitions=1)
    spread = with_partitions(plan, VARIABLES, 3)
    row = 3 * 4 + 4
    assert served_bytes(plan, VARIABLES, 2).sum() == served_bytes(spread, VARIABLES, 2).sum() == 2 * 23 * row
    assert sorted(served_bytes(spread, VARIABLES, 1).tolist()) == [7 * row, 8 * row, 8 * row]
    totals = np.zeros(2, np.int64)
    for rank in range(3):
        assert moved_bytes(plan, plan, VARIABLES, 2, rank) == {}
        for (phase, name, kind), both in moved_bytes(plan, spread, VARIABLES, 2, rank).items():
            assert (phase, kind) == ("repartition", "rows") and name in ("words", "bias")
            totals += both
    assert totals[0] == totals[1] > 0


def test_another_number_of_partitions_changes_nothing_else():
    plan = make_plan(VARIABLES, "hybrid", 4, 8, scheme="interleaved", machines=((0, 1), (2, 3)))
    again = with_partitions(plan, VARIABLES, 7)
    assert with_partitions(again, VARIABLES, 4) == plan
    assert [len(p.owners) for p in again.placements] == [7, 0, 7] and again.placements[0].scheme == "interleaved"
