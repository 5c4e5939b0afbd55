"""Every byte that a step may cost has a key in the reports."""

import numpy as np
import pytest

from models import Variable
from refimpl.gradients import cover, leaves_of
from refimpl.plan import ledger_keys, make_plan, predict_step
from refimpl.transport.machines import in_blocks

VARIABLES = [Variable("e", (20, 3), sparse=True), Variable("w", (4, 5)), Variable("b", (5,))]


@pytest.mark.parametrize("architecture, more", [("allreduce", {}), ("allreduce", {"sparse_as_dense": True}),
                                                ("ps", {}), ("hybrid", {}), ("hybrid", {"shard_optimizer": True})])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_predicted_bytes_have_keys(architecture, more, ranks):
    for machines in (None, in_blocks(ranks, 2)):
        check_keys(make_plan(VARIABLES, architecture, ranks, 8, machines=machines, **more), ranks)


def check_keys(plan, ranks):
    ids = np.arange(0, 20, 2)
    pushed = {"e": [[ids] * len(cover(leaves_of(r, ranks, 8))) for r in range(ranks)]}
    keys = ledger_keys(plan, VARIABLES)
    assert len(set(keys)) == len(keys)
    for rank in range(ranks):
        assert set(predict_step(plan, VARIABLES, {"e": [ids] * ranks}, pushed, rank)) <= set(keys)
