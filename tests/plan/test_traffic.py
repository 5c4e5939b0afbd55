"""What a variable puts on the network: equal to the closed formulas, and to the exact bytes of cost.py."""

import numpy as np
import pytest
from constructed import ROW, SETTINGS, Q, alphas, touched

from models import Variable
from refimpl.plain.cost_table import (
    dense_server_at_owner, dense_server_spread, sparse_allgather, sparse_server_at_owner, sparse_server_spread,
)
from refimpl.plan import make_plan, predict_step
from refimpl.plan.predict import traffic_of
from refimpl.plan.sample import Sample
from refimpl.transport.machines import in_blocks


def constructed(setting):
    """A variable, and a sample in which every worker touches A of each Q rows, one microbatch a worker."""
    rows = setting.ranks * Q
    sets = [touched(setting, rank) for rank in range(setting.ranks)]
    sample = Sample(setting.ranks, {"rows": rows}, (0,), ({"rows": sets},))
    return Variable("rows", (rows, ROW // 4), sparse=True), sample


def plan_of(variables, architecture, setting, **more):
    machines = in_blocks(setting.ranks, setting.workers)
    return make_plan(variables, architecture, setting.ranks, setting.ranks, machines=machines,
                     local_aggregation=setting.local_aggregation, **more)


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.machines > 1], ids=str)
def test_rows_through_cards_are_the_formulas(setting):
    variable, sample = constructed(setting)
    size = alphas(setting)

    def through_cards(architecture, **more):
        plan = plan_of([variable], architecture, setting, **more)
        return traffic_of([(variable, plan.strategies["rows"])], plan, sample).through_cards(control=False)

    def on_every_card(formula):
        return np.full(setting.machines, float(sum(formula)))

    at_owner = sum(sparse_server_at_owner(size, setting))
    assert through_cards("hybrid", partitions=1).max() == pytest.approx(at_owner, rel=1e-12)
    spread = sparse_server_spread(type(size)(Q, ROW, size.alpha, size.alpha_machine), setting, setting.ranks)
    assert through_cards("hybrid") == pytest.approx(on_every_card(spread), rel=1e-12)
    assert through_cards("allreduce") == pytest.approx(on_every_card(sparse_allgather(size, setting)))


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s.machines > 1], ids=str)
def test_dense_bytes_through_cards_are_the_formulas(setting):
    variables = [Variable(f"v{i}", (6, 5)) for i in range(2 * setting.ranks)]
    sample, w = Sample(setting.ranks, {}, (0,), ({},)), variables[0].nbytes
    plan = plan_of(variables, "ps", setting)
    each = [traffic_of([(v, plan.strategies[v.name])], plan, sample).through_cards(control=False) for v in variables]
    assert {max(cards) for cards in each} == {dense_server_at_owner(w, setting)}
    assert set(sum(each)) == {dense_server_spread(w, setting, len(variables))}


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("architecture", ["hybrid", "allreduce", "ps"])
def test_without_aggregation_it_is_what_cost_counts(ranks, architecture):
    """Uneven microbatches, so several nodes a rank; random rows; a machine for each rank. Rank by rank, in and out."""
    rng, leaves = np.random.default_rng(ranks), ranks + 2
    variables = [Variable("rows", (37, 3), sparse=True), Variable("dense", (11,))]
    sets = [np.flatnonzero(rng.random(37) < 0.3) for _ in range(leaves)]
    sample = Sample(leaves, {"rows": 37}, (0,), ({"rows": sets},))
    plan = make_plan(variables, architecture, ranks, leaves, machines=in_blocks(ranks, 1), local_aggregation=False)
    for variable in variables:
        if plan.strategies[variable.name].arena([variable]) is not None:
            continue
        traffic = traffic_of([(variable, plan.strategies[variable.name])], plan, sample)
        for rank in range(ranks):
            exact = predict_step(plan, variables, *sample.both(0, ranks), rank)
            sent, received = (sum(both[direction] for (_, name, _), both in exact.items() if name == variable.name)
                              for direction in (0, 1))
            for column, exactly in ((traffic.sent, sent), (traffic.received, received)):
                assert sum(c[rank] for (_, kind), c in column.items() if kind != "control") == exactly


def test_a_popular_row_makes_a_hot_card():
    """All ask for one row of the first partition: its owner's card has all the bytes, the others' one worker's each."""
    ranks, rows = 4, Variable("rows", (8, 2), sparse=True)
    sample = Sample(ranks, {"rows": 8}, (0,), ({"rows": [np.array([0], np.int64)] * ranks},))
    plan = make_plan([rows], "hybrid", ranks, ranks, machines=in_blocks(ranks, 1))
    cards = traffic_of([(rows, plan.strategies["rows"])], plan, sample).through_cards(control=False)
    assert cards.tolist() == [3 * 2 * 16, 32, 32, 32]


def test_uneven_machines_with_ranks_that_do_not_follow_each_other():
    """What leaves all cards enters all cards; nothing of a machine of all ranks does."""
    sets = [np.arange(r, 12, 5) for r in range(5)]
    rows = Variable("rows", (12, 2), sparse=True)
    sample = Sample(5, {"rows": 12}, (0,), ({"rows": sets},))
    for machines in (((0, 3, 4), (1,), (2,)), ((0, 1, 2, 3, 4),), ((0, 2), (1, 3, 4))):
        plan = make_plan([rows], "hybrid", 5, 5, machines=machines)
        traffic = traffic_of([(rows, plan.strategies["rows"])], plan, sample)
        for name in traffic.sent:
            assert traffic.sent[name].sum() == traffic.received[name].sum()
        assert (sum(c.sum() for c in traffic.sent.values()) > 0) == (len(machines) > 1)
        assert traffic.messages["push", "rows"].sum() % 2 == 0
