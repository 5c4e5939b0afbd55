"""Which rows move when the partitions change: each exactly once."""

from itertools import product

import numpy as np
import pytest

from refimpl.server import Partitioning
from refimpl.server.moves import moves_of

SCHEMES = list(product((1, 2, 5, 30), ("contiguous", "interleaved")))


def tables(parts):
    """Return each rank's table, its rows being their own global numbers."""
    return [parts.global_rows(r) for r in range(parts.ranks)]


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_every_row_arrives_at_its_new_place(ranks):
    for both in product(SCHEMES, repeat=2):
        old, new = (Partitioning.round_robin(23, p, ranks, s) for p, s in both)
        moves = [moves_of(old, new, r) for r in range(ranks)]
        before, after = tables(old), [np.full(new.rows_owned(r), -1) for r in range(ranks)]
        for source, target in product(range(ranks), repeat=2):
            assert (after[target][moves[target].arriving[source]] == -1).all(), both
            after[target][moves[target].arriving[source]] = before[source][moves[source].leaving[target]]
        assert all(np.array_equal(a, b) for a, b in zip(after, tables(new), strict=True)), both


def test_owners_of_any_order_and_ranks_without_rows():
    old, new = Partitioning(10, (3, 3, 0), 4), Partitioning(10, (1, 0, 3, 0), 4, "interleaved")
    moves = [moves_of(old, new, r) for r in range(4)]
    assert [sum(map(len, m.leaving)) for m in moves] == [old.rows_owned(r) for r in range(4)] == [4, 0, 0, 6]
    assert [sum(map(len, m.arriving)) for m in moves] == [new.rows_owned(r) for r in range(4)] == [5, 3, 0, 2]
