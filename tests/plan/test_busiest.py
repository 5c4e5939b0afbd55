"""The busiest owner's part: a count by hand, and what more partitions can and cannot change."""

import numpy as np
import pytest

from models import Variable
from refimpl.plan.choose import busiest_shares
from refimpl.plan.sample import Sample
from refimpl.transport.machines import in_blocks

TABLE = Variable("words", (24, 2), sparse=True)
ALL = np.arange(24)


def sample_of(*ids):
    return Sample(len(ids), {"words": 24}, (0,), ({"words": [np.array(each, np.int64) for each in ids]},))


def test_rows_asked_for_alike_fall_on_the_owner_of_most_partitions():
    shares = busiest_shares([TABLE], sample_of(ALL, ALL, ALL, ALL), in_blocks(4, 1), (1, 2, 3, 4, 6, 8, 12, 24))
    expected = {p: -(-p // 4) / p for p in (1, 2, 3, 4, 6, 8, 12, 24)}
    assert shares == pytest.approx(expected)


def test_popular_rows_weigh_more_and_a_machine_asks_once():
    two = sample_of([0, 1], [0], [0], [0, 5])
    assert busiest_shares([TABLE], two, in_blocks(4, 1), [4], "contiguous") == {4: 1.0}  # rows 0 to 5: one owner
    assert busiest_shares([TABLE], two, in_blocks(4, 1), [24]) == pytest.approx({24: 4 / 6})
    assert busiest_shares([TABLE], two, in_blocks(4, 2), [24]) == pytest.approx({24: 2 / 4})
    assert busiest_shares([TABLE], sample_of([], []), in_blocks(2, 1), [2]) == {2: 0.0}
