"""Cost formulas on small cases, counted by hand. That the ledger equals them: tests/training/test_bytes_mpi.py."""

import numpy as np
import pytest

from models import Variable
from refimpl.gradients import cover, leaves_of
from refimpl.gradients.exact_sum import DIGITS
from refimpl.plan import make_plan, predict_step
from refimpl.plan.cost import EXACT_SUM

ROWS, DENSE = Variable("rows", (12, 5), sparse=True), Variable("dense", (8,))
BOTH = [ROWS, DENSE]
NORM = 8 * (2 * EXACT_SUM + 1)


def ids(*numbers):
    return np.array(numbers, np.int64)


def test_one_rank_sends_nothing():
    for architecture in ("allreduce", "ps", "hybrid"):
        plan = make_plan(BOTH, architecture, 1, 4)
        assert predict_step(plan, BOTH, {"rows": [ids(1, 2)]}, {"rows": [[ids(1, 2)]]}, 0) == {}


def test_hybrid_by_hand():
    """Rank 0 owns rows 0 to 5. It pulls 1, 7, 8; rank 1 pulls 2. Their gradients touch 7 and 2."""
    plan = make_plan(BOTH, "hybrid", 2, 2)
    pulled, pushed = {"rows": [ids(1, 7, 8), ids(2)]}, {"rows": [[ids(7)], [ids(2)]]}
    assert predict_step(plan, BOTH, pulled, pushed, 0) == {
        ("pull", "", "control"): (8, 8), ("pull", "rows", "indices"): (16, 8), ("pull", "rows", "rows"): (20, 40),
        ("push", "", "control"): (8, 8), ("push", "rows", "indices"): (8, 8), ("push", "rows", "rows"): (20, 20),
        ("allreduce", "dense", "dense"): (32, 32), ("norm", "", "control"): (NORM, NORM)}


def test_parameter_server_by_hand():
    """Three microbatches on two ranks: rank 1 has two, which are no node of the tree, and pushes both to rank 0."""
    plan = make_plan(BOTH, "ps", 2, 3, partitions=1)
    pulled, pushed = {"rows": [ids(1), ids(2)]}, {"rows": [[ids(1)], [ids(2), ids()]]}
    assert predict_step(plan, BOTH, pulled, pushed, 0) == {
        ("pull", "", "control"): (8, 8), ("pull", "rows", "indices"): (0, 8), ("pull", "rows", "rows"): (20, 0),
        ("push", "", "control"): (16, 16), ("push", "rows", "indices"): (0, 8), ("push", "rows", "rows"): (0, 20),
        ("pull", "dense", "dense"): (32, 0), ("push", "dense", "dense"): (0, 64), ("norm", "", "control"): (NORM, NORM)}


def test_allreduce_by_hand():
    """Rows go to both other ranks; as dense, every element and one mark a row: 60 + 12 elements, 2/3 of them twice."""
    pushed = {"rows": [[ids(1, 2)], [ids()], [ids(3)]]}
    gathered = predict_step(make_plan(BOTH, "allreduce", 3, 3), BOTH, {}, pushed, 0)
    assert gathered["allgather", "rows", "indices"] == (2 * 16, 8)
    assert gathered["allgather", "rows", "rows"] == (2 * 40, 20)
    as_dense = make_plan(BOTH, "allreduce", 3, 3, sparse_as_dense=True)
    for rank in range(3):
        assert predict_step(as_dense, BOTH, {}, {}, rank)["allreduce", "rows", "dense"] == (4 * 96, 4 * 96)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8])
def test_what_is_sent_is_received(ranks):
    rng = np.random.default_rng(ranks)
    for architecture, more in (("allreduce", {}), ("allreduce", {"sparse_as_dense": True}), ("ps", {}), ("hybrid", {})):
        plan = make_plan(BOTH, architecture, ranks, ranks + 1, **more)
        nodes = [cover(leaves_of(r, ranks, ranks + 1)) for r in range(ranks)]
        pulled = {"rows": [np.flatnonzero(rng.random(12) < 0.4) for _ in nodes]}
        pushed = {"rows": [[np.flatnonzero(rng.random(12) < 0.4) for _ in own] for own in nodes]}
        each = [predict_step(plan, BOTH, pulled, pushed, rank) for rank in range(ranks)]
        for key in {key for one in each for key in one}:
            assert sum(one.get(key, (0, 0))[0] for one in each) == sum(one.get(key, (0, 0))[1] for one in each)


def test_the_plans_constant_is_the_sums():
    assert EXACT_SUM == DIGITS
