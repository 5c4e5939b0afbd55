"""Partitions: every row has one owner and one place; a route sends it there and back."""

import numpy as np
import pytest

from refimpl.server.partition import Partitioning
from refimpl.server.rows import _of


@pytest.mark.parametrize("scheme", ["contiguous", "interleaved"])
@pytest.mark.parametrize("rows", [0, 1, 7, 101])
@pytest.mark.parametrize("ranks, partitions", [(1, 1), (2, 1), (2, 3), (3, 2), (3, 7), (5, 4)])
def test_every_row_has_one_owner_and_one_place(scheme, rows, ranks, partitions):
    parts = Partitioning.round_robin(rows, partitions, ranks, scheme)
    owned = [parts.global_rows(r) for r in range(ranks)]
    assert sorted(np.concatenate(owned)) == list(range(rows))
    assert [parts.rows_owned(r) for r in range(ranks)] == [len(o) for o in owned]
    rng = np.random.default_rng(rows)
    for count in {0, rows // 3, rows}:
        ids = np.sort(rng.choice(rows, count, replace=False)).astype(np.int64)
        route = parts.route(ids)
        sent = route.sort(ids)
        for owner in range(ranks):
            local, part = route.of(owner), sent[route.bounds[owner]:route.bounds[owner + 1]]
            assert (owned[owner][local] == part).all() and (np.diff(local) > 0).all()
            assert (parts.owners_of(part) == owner).all()
        assert (route.unsort(sent) == ids).all() and len(route.numbers) == count


def test_rows_beyond_two_to_the_31():
    parts = Partitioning.round_robin(2**40, 3, 2, "interleaved")
    ids = np.array([2**24 + 1, 2**31 + 5, 2**40 - 1])
    route = parts.route(ids)
    assert route.numbers.dtype == np.int64
    assert parts.rows_owned(0) + parts.rows_owned(1) == 2**40
    partitions = {p: parts.rows_of_partition(p) for p in range(3)}
    for position, row in enumerate(route.sort(ids)):
        owner = int(np.searchsorted(route.bounds, position, side="right") - 1)
        local = int(route.numbers[position])
        for p in parts.partitions_of(owner):  # walk the owner's table: which partition, which row of it
            if local < len(partitions[p]):
                break
            local -= len(partitions[p])
        assert partitions[p][local] == row
    contiguous = Partitioning.round_robin(2**40, 4, 4)
    assert contiguous.route(ids).numbers.tolist() == [2**24 + 1, 2**31 + 5, 2**38 - 1]


def test_unequal_owners_and_refusals():
    parts = Partitioning(10, (1, 1, 0), 3)
    assert parts.global_rows(1).tolist() == [0, 1, 2, 3, 4, 5] and parts.rows_owned(2) == 0
    with pytest.raises(ValueError, match="scheme"):
        Partitioning(10, (0,), 1, "random")
    with pytest.raises(ValueError, match="owners"):
        Partitioning(10, (0, 2), 2)
    with pytest.raises(ValueError, match="at least 1"):
        Partitioning.round_robin(10, 0, 2)
    with pytest.raises(ValueError, match="3,000,000,000 partitions: give at most 65,536"):
        Partitioning.round_robin(10, 3 * 10**9, 2)


def test_an_owner_with_fewer_rounds_has_empty_pieces_in_the_others():
    assert [_of([slice(0, 2)], number) for number in range(3)] == [slice(0, 2), slice(0, 0), slice(0, 0)]
