"""Plans: the strategy of each variable, who owns it, as data; and what is refused."""

import json

import numpy as np
import pytest

from models import Variable
from refimpl.plan import ARCHITECTURES, Plan, imbalance, make_plan, owner_loads
from refimpl.plan.partitions.balance import owned_bytes
from refimpl.plan.make import with_partitions

VARIABLES = [Variable("a", (100,)), Variable("rows", (50, 4), sparse=True), Variable("b", (60,)), Variable("c", (50,)),
             Variable("d", (30,)), Variable("none", (0, 3))]


def names(plan):
    return {variable: strategy.name for variable, strategy in plan.strategies.items()}


def test_architectures_choose_the_strategies():
    for architecture, (dense, sparse) in ARCHITECTURES.items():
        plan = make_plan(VARIABLES, architecture, 3, 8)
        assert names(plan) == {v.name: sparse if v.sparse else dense for v in VARIABLES}
    assert names(make_plan(VARIABLES, "allreduce", 3, 8, sparse_as_dense=True))["rows"] == "as-dense"
    for architecture, sparse in (("allreduce", "allgather"), ("hybrid", "server")):
        found = names(make_plan(VARIABLES, architecture, 3, 8, shard_optimizer=True))
        assert found == {v.name: sparse if v.sparse else "reduce-scatter" for v in VARIABLES}


def test_dense_variables_go_to_the_least_loaded_owner():
    """By bytes, in the model's order: 400 to rank 0; 256, 272, 272 of the rows to each in turn; 240 to rank 1, 200 and
    120 to rank 2, the next to rank 1.
    """
    plan = make_plan(VARIABLES, "ps", 3, 8)
    owners = {p.variable: p.strategy.owners for p in plan.placements if not p.sparse}
    assert owners == {"a": (0,), "b": (1,), "c": (2,), "d": (2,), "none": (1,)}


@pytest.mark.parametrize("partitions, owners", [(None, (0, 1, 2)), (1, (0,)), (2, (0, 1)), (7, (0, 1, 2, 0, 1, 2, 0))])
def test_partitions_are_dealt_in_turn(partitions, owners):
    plan = make_plan(VARIABLES, "hybrid", 3, 8, partitions=partitions, scheme="interleaved")
    assert plan.strategies["rows"].owners == owners and plan.strategies["rows"].scheme == "interleaved"
    assert plan.partitioning(VARIABLES[1]).partitions == len(owners)


def test_whole_variables_are_spread_over_the_owners():
    """One partition each, dense ones whole: the least loaded rank so far takes the next, sparse or not."""
    variables = [Variable("big", (100, 4), sparse=True), Variable("a", (50,)), Variable("small", (10, 4), sparse=True),
                 Variable("next", (20, 4), sparse=True), Variable("b", (30,))]
    served = make_plan(variables, "ps", 3, 8, partitions=1)
    owners = {name: strategy.owners for name, strategy in served.strategies.items()}
    assert owners == {"big": (0,), "a": (1,), "small": (2,), "next": (2,), "b": (1,)}
    plan = make_plan(variables, "hybrid", 2, 8, partitions=3)
    hybrid = {name: strategy.owners for name, strategy in plan.strategies.items()}
    assert hybrid == {"big": (0, 1, 0), "a": (), "small": (0, 1, 1), "next": (0, 1, 1), "b": ()}


@pytest.mark.parametrize("scheme", ["contiguous", "interleaved"])
def test_popular_partitions_are_spread(scheme):
    """Zipf's law: the first of 4 contiguous partitions has most of the load; 64 of them can be shared out evenly."""
    variables = [Variable("words", (1000, 4), sparse=True), Variable("other", (64, 2), sparse=True)]
    popularity = {"words": np.minimum(8, 500 / np.arange(1, 1001)), "other": np.ones(64)}
    imbalances = []
    for partitions, more in ((4, {}), (64, {}), (64, {"popularity": popularity})):
        plan = make_plan(variables, "hybrid", 4, 8, partitions=partitions, scheme=scheme, **more)
        loads = owner_loads(variables, plan, popularity)
        total = 16 * popularity["words"].sum() + 8 * 64
        assert loads.sum() == pytest.approx(total)
        imbalances.append(imbalance(loads))
    assert imbalances[2] < 1.05 and imbalances[2] <= imbalances[1]
    if scheme == "contiguous":
        assert imbalances[0] > imbalances[1] and imbalances[0] > 1.5


TABLES = [Variable("words", (23, 3), sparse=True), Variable("weight", (4, 4)),
          Variable("bias", (23, 1), sparse=True)]


def test_bytes_owned():
    plan = make_plan(TABLES, "hybrid", 3, 8, partitions=1)
    spread = with_partitions(plan, TABLES, 3)
    row = 3 * 4 + 4
    assert owned_bytes(plan, TABLES, 2).sum() == owned_bytes(spread, TABLES, 2).sum() == 2 * 23 * row
    assert sorted(owned_bytes(spread, TABLES, 1).tolist()) == [7 * row, 8 * row, 8 * row]


def test_another_number_of_partitions_changes_nothing_else():
    plan = make_plan(TABLES, "hybrid", 4, 8, scheme="interleaved", machines=((0, 1), (2, 3)))
    again = with_partitions(plan, TABLES, 7)
    assert with_partitions(again, TABLES, 4) == plan
    assert [len(strategy.owners) for strategy in again.strategies.values()] == [7, 0, 7]
    assert again.strategies["words"].scheme == "interleaved"


def test_a_plan_survives_json():
    for architecture in ARCHITECTURES:
        plan = make_plan(VARIABLES, architecture, 4, 8, partitions=5, allreduce="direct")
        assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    with pytest.raises(ValueError, match="plan: format 1: this version reads format 4; edit that, or make it"):
        Plan.from_json({**plan.to_json(), "format": 1})


@pytest.mark.parametrize("arguments, words", [
    (dict(architecture="telepathy"), "no architecture 'telepathy'; there are allreduce, ps, hybrid"),
    (dict(architecture="hybrid", sparse_as_dense=True), "works only with --architecture allreduce"),
    (dict(architecture="ps", shard_optimizer=True), "works only with --architecture allreduce or hybrid, "
                                                    "not ps: leave it out, or say --no-shard-optimizer"),
    (dict(architecture="ps", partitions=0), "0 partitions: give at least 1"),
    (dict(architecture="ps", partitions=10**9), "the largest sparse variable on the server has 50 rows, give at most"),
    (dict(architecture="hybrid", scheme="random"), "no partition scheme 'random'"),
])
def test_refusals(arguments, words):
    with pytest.raises(ValueError) as caught:
        make_plan(VARIABLES, ranks=2, microbatches=8, **arguments)
    assert words in str(caught.value)
