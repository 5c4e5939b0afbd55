"""Bytes of metrics.jsonl, added up by rank."""

import pytest

from refimpl.training.run.recorded_bytes import bytes_by_rank

RECORD = {"bytes_sent": {"pull": {"words": {"rows": [10, 0], "indices": [1, 2]}, "": {"control": [7, 7]}}},
          "bytes_received": {"pull": {"words": {"rows": [0, 10], "indices": [2, 1]}},
                             "push": {"bias": {"dense": [100, 200]}}}}


def test_added_up_by_rank():
    assert bytes_by_rank([RECORD, RECORD]) == [113, 213]
    assert bytes_by_rank([RECORD], variable="words") == [13, 13] == bytes_by_rank([RECORD], phase="pull")
    assert bytes_by_rank([RECORD], kinds=["control"]) == [7, 7] and bytes_by_rank([RECORD], phase="norm") == []


def test_refuses_no_metrics():
    with pytest.raises(ValueError, match="no metrics"):
        bytes_by_rank([])
