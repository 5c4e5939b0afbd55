"""Cost formulas on small cases, counted by hand. That the ledger equals them: tests/training/test_bytes_mpi.py."""

import numpy as np
import pytest

from kernels.exact_sum import DIGITS
from models import Variable
from refimpl.gradients import cover, leaves_of
from refimpl.plan import ledger_keys, make_plan, predict_step
from refimpl.plan.cost import bytes_between
from refimpl.strategies import ReduceScatter
from refimpl.strategies.owned_dense import rows_in

ROWS, DENSE = Variable("rows", (12, 5), sparse=True), Variable("dense", (8,))
BOTH = [ROWS, DENSE]
NORM = 8 * (2 * DIGITS + 5)


def ids(*numbers):
    return np.array(numbers, np.int64)


def test_hybrid_by_hand():
    """Rank 0 owns rows 0 to 5. It pulls 1, 7, 8; rank 1 pulls 2. Their gradients touch 7 and 2."""
    plan = make_plan(BOTH, "hybrid", 2, 2)
    pulled, pushed = {"rows": [ids(1, 7, 8), ids(2)]}, {"rows": [[ids(7)], [ids(2)]]}
    assert predict_step(plan, BOTH, pulled, pushed, 0) == {
        ("pull", "", "control"): (8, 8), ("pull", "rows", "indices"): (16, 8), ("pull", "rows", "rows"): (20, 40),
        ("push", "", "control"): (8, 8), ("push", "rows", "indices"): (8, 8), ("push", "rows", "rows"): (20, 20),
        ("allreduce", "dense", "dense"): (32, 32), ("norm", "", "control"): (NORM, NORM)}


def test_parameter_server_by_hand():
    """Three microbatches on two ranks: rank 1 has two, which are no node of the tree, and pushes both to rank 0.

    Rank 0 owns the rows, rank 1, who has less, the dense variable.
    """
    plan = make_plan(BOTH, "ps", 2, 3, partitions=1)
    pulled, pushed = {"rows": [ids(1), ids(2)]}, {"rows": [[ids(1)], [ids(2), ids()]]}
    assert predict_step(plan, BOTH, pulled, pushed, 0) == {
        ("pull", "", "control"): (0, 8), ("pull", "rows", "indices"): (0, 8), ("pull", "rows", "rows"): (20, 0),
        ("push", "", "control"): (0, 16), ("push", "rows", "indices"): (0, 8), ("push", "rows", "rows"): (0, 20),
        ("pull", "dense", "dense"): (0, 32), ("push", "dense", "dense"): (32, 0), ("norm", "", "control"): (NORM, NORM)}


def test_reduce_scatter_by_hand():
    """Eight elements on three ranks: 3, 2 and 3 of them. Of four microbatches rank 2 has two, which are one node."""
    plan = make_plan([DENSE], "hybrid", 3, 4, shard_optimizer=True)
    for rank, (mine, others) in enumerate(((3, 5), (2, 6), (3, 5))):
        found = predict_step(plan, [DENSE], {}, {}, rank)
        assert found["pull", "dense", "dense"] == (4 * 2 * mine, 4 * others)
        assert found["push", "dense", "dense"] == (4 * others, 4 * 2 * mine)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 7, 8, 16])
def test_reduce_scatter_cuts_between_rows_as_evenly_as_can_be(ranks):
    """Each rank's share is within a row of an N-th; so it sends within N - 2 rows of 2 (N - 1) / N of all."""
    rng = np.random.default_rng(ranks)
    for _ in range(20):
        shapes = [tuple(rng.integers(0, 9, rng.integers(0, 4)).tolist()) for _ in range(6)]
        variables = [Variable(f"v{i}", shape) for i, shape in enumerate(shapes)]
        plan = make_plan(variables, "allreduce", ranks, ranks, shard_optimizer=True)
        pieces = ReduceScatter.pieces([(v, plan.strategies[v.name]) for v in variables], ranks)
        assert [p.owner for p in pieces if p.part.size] == sorted(p.owner for p in pieces if p.part.size)
        for v in variables:
            rows = [row for _, part in pieces if part.name == v.name for row in rows_in(part)]
            assert rows == list(range(v.shape[0] if v.shape else 1))  # each on one rank, in order
        w, row = sum(v.nbytes for v in variables), max(v.nbytes // max(1, *v.shape[:1], 1) for v in variables)
        between = sum((sent for key, sent in bytes_between(plan, variables, {}, {}).items() if key[2] == "dense"),
                      np.zeros((ranks, ranks)))
        for rank in range(ranks):
            own = 4 * sum(p.part.size for p in pieces if p.owner == rank)
            assert abs(own - w / ranks) <= row
            assert between[rank].sum() == between[:, rank].sum() == w + (ranks - 2) * own
            assert abs(between[rank].sum() - 2 * (ranks - 1) * w / ranks) <= (ranks - 2) * row


MACHINES = ((0, 2), (1, 3))


def on_two_machines(architecture, **more):
    """Rows 0-2, 3-5, 6-8, 9-11 belong to ranks 0, 1, 2, 3; ranks 0 and 2 share a machine, and 1 and 3.

    All need row 3; rank 0 also row 0, rank 2 also rows 4 and 9.
    """
    plan = make_plan(BOTH, architecture, 4, 4, machines=MACHINES, **more)
    needs = [ids(0, 3), ids(3), ids(3, 4, 9), ids(3)]
    return plan, {"rows": needs}, {"rows": [[own] for own in needs]}


def test_local_aggregation_by_hand():
    """Rank 0 is its machine's aggregator of owner 1, rank 2 of owner 3. Microbatches 0 and 2, 1 and 3 join to no node."""
    plan, pulled, pushed = on_two_machines("hybrid", allreduce="direct")
    found = predict_step(plan, BOTH, pulled, pushed, 0)
    dense = found.pop(("allreduce", "dense", "dense"))
    assert dense == (48, 48)
    assert found == {
        # to rank 2, the aggregator of 2 and 3, a list; from it one of what it wants of 0 and 1, rows 3 and 4
        ("gather", "", "control"): (8, 8), ("gather", "rows", "indices"): (0, 16), ("scatter", "rows", "rows"): (40, 0),
        # to owner 1: 3 and 4, as its machine wants them; from rank 1, its aggregator on the other: nothing of its own
        ("pull", "", "control"): (8, 8), ("pull", "rows", "indices"): (16, 0), ("pull", "rows", "rows"): (0, 40),
        ("aggregate", "", "control"): (8, 8), ("aggregate", "rows", "indices"): (0, 16),
        ("aggregate", "rows", "rows"): (0, 40),
        # both microbatches' rows, for they form no node: 3, and 3 and 4
        ("push", "", "control"): (16, 16), ("push", "rows", "indices"): (24, 0), ("push", "rows", "rows"): (60, 0),
        ("norm", "", "control"): (2 * NORM, 2 * NORM)}


def test_dense_on_the_server_with_local_aggregation_by_hand():
    """Rank 1 owns 32 bytes: pulled and pushed once by rank 0 for both of its machine, who share in it."""
    plan, pulled, pushed = on_two_machines("ps", partitions=1)
    assert {name: strategy.owners for name, strategy in plan.strategies.items()} == {"rows": (0,), "dense": (1,)}
    found = [predict_step(plan, BOTH, pulled, pushed, rank) for rank in range(4)]
    of_dense = [{key[0]: value for key, value in one.items() if key[1] == "dense"} for one in found]
    assert of_dense == [
        {"pull": (0, 32), "scatter": (32, 0), "aggregate": (0, 32), "push": (64, 0)},  # 0 and 2 join to no node
        {"pull": (32, 0), "scatter": (32, 0), "aggregate": (0, 32), "push": (0, 64)},
        {"scatter": (0, 32), "aggregate": (32, 0)}, {"scatter": (0, 32), "aggregate": (32, 0)}]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_what_is_sent_has_a_key_in_the_reports(ranks):
    rng = np.random.default_rng(ranks)
    machines = tuple(m for m in (tuple(range(0, ranks, 3)), tuple(r for r in range(ranks) if r % 3)) if m)
    for architecture, more in (("allreduce", {}), ("allreduce", {"sparse_as_dense": True}), ("ps", {}), ("hybrid", {}),
                               ("ps", {"machines": machines}), ("hybrid", {"machines": machines, "partitions": 7}),
                               ("hybrid", {"machines": machines, "shard_optimizer": True})):
        plan = make_plan(BOTH, architecture, ranks, ranks + 1, **more)
        nodes = [cover(leaves_of(r, ranks, ranks + 1)) for r in range(ranks)]
        pulled = {"rows": [np.flatnonzero(rng.random(12) < 0.4) for _ in nodes]}
        pushed = {"rows": [[np.flatnonzero(rng.random(12) < 0.4) for _ in own] for own in nodes]}
        found, known = bytes_between(plan, BOTH, pulled, pushed).keys(), ledger_keys(plan, BOTH)
        assert found <= set(known) and len(set(known)) == len(known) and bool(found) == (ranks > 1)
