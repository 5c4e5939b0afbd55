"""Which tables ``hybrid`` sends whole: those that plain.strategies.cost_table.goes_whole names, and no others."""

from fractions import Fraction

import numpy as np
import pytest

from models import Variable
from refimpl.collectives.simulation.network import Network
from refimpl.plain.strategies.cost_table import Setting, Sparse, goes_whole
from refimpl.plan import Plan, make_plan
from refimpl.plan.choose import choose_plan
from refimpl.plan.cost import bytes_between
from refimpl.plan.report import describe
from refimpl.plan.sample import Sample
from refimpl.plan.whole import describe_whole, with_whole
from refimpl.transport.machines import in_blocks

Q, ROW = 24, 16
"""A rank owns Q rows of 16 bytes: whole takes 4 bytes a row more, by rows 8, so 20 of 24 rows cost as much as all."""


def table(ranks, name="table"):
    return Variable(name, (ranks * Q, ROW // 4), sparse=True)


def sample_of(ranks, touched, names=("table",)):
    """Every rank, one microbatch each, touches so many rows of each owner's Q, from its own place on."""
    rows = [np.sort(np.concatenate([block * Q + (rank + np.arange(touched)) % Q for block in range(ranks)]))
            for rank in range(ranks)]
    return Sample(ranks, dict.fromkeys(names, ranks * Q), (0,), (dict.fromkeys(names, rows),))


def chosen(ranks, touched, **making):
    plan = make_plan([table(ranks)], "hybrid", ranks, ranks, **making)
    return with_whole(plan, [table(ranks)], sample_of(ranks, touched))


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_the_plain_rule_decides(ranks):
    """Exact bytes also count how many rows come, so by rows they are a little more: in no case that decides here."""
    found = {}
    for touched in range(Q + 1):
        plan, reasons = chosen(ranks, touched, allreduce="direct")
        found[touched] = plan.strategies["table"].name == "as-dense"
        assert found[touched] == bool(reasons) == goes_whole(Sparse(ranks * Q, ROW, Fraction(touched, Q)), Setting(ranks))
    assert [t for t, whole in found.items() if whole] == ([] if ranks == 1 else [20, 21, 22, 23, 24])


@pytest.mark.parametrize("machines", [2, 4])
def test_on_machines_what_a_machine_touches_decides(machines):
    """Of two ranks each: together they touch a row more than one of them, and local aggregation sends these."""
    ranks, found = 2 * machines, {}
    for touched in range(Q):
        plan, _ = chosen(ranks, touched, machines=in_blocks(ranks, 2), allreduce="hierarchical")
        found[touched] = plan.strategies["table"].name == "as-dense"
        size = Sparse(ranks * Q, ROW, Fraction(touched, Q), Fraction(touched + (touched > 0), Q))
        assert found[touched] == goes_whole(size, Setting(machines, 2))
    assert [t for t, whole in found.items() if whole] == [19, 20, 21, 22, 23]


def test_a_ring_which_adds_in_another_order_carries_no_table():
    assert chosen(4, 24, allreduce="ring")[1] == {} != chosen(4, 24, allreduce="direct")[1]


def test_each_table_is_chosen_for_itself_and_nothing_else_changes():
    variables = [Variable("weight", (8, 4)), table(3), Variable("other", (3 * Q, ROW // 4), sparse=True)]
    few, many = sample_of(3, 2).touched[0]["table"], sample_of(3, 24).touched[0]["table"]
    sample = Sample(3, {"table": 72, "other": 72}, (0,), ({"table": few, "other": many},))
    plan = make_plan(variables, "hybrid", 3, 3, codec={"sparse": "bf16"})
    found, reasons = with_whole(plan, variables, sample)
    assert {name: s.name for name, s in found.strategies.items()} == {"weight": "allreduce", "table": "server",
                                                                     "other": "as-dense"}
    assert found.strategies["table"] == plan.strategies["table"] and found.strategies["other"].codec == "bf16"
    assert Plan.from_json(found.to_json()) == found
    assert describe_whole(reasons).startswith("hybrid: whole, by allreduce, go other (α = 1: ")


def test_the_bytes_that_are_told_are_those_of_the_plan():
    plan, reasons = chosen(4, 23)
    sample = sample_of(4, 23)
    sums = [sum(int(sent.sum()) for (phase, *_), sent in bytes_between(each, [table(4)], *sample.both(0, 4)).items()
                if phase != "norm") for each in (plan, make_plan([table(4)], "hybrid", 4, 4))]
    assert reasons["table"] == f"α = 0.958: {sums[0]:,} bytes a step whole, {sums[1]:,} by rows"
    assert describe_whole({}) is None
    assert describe_whole(dict.fromkeys("abcdef", "why")) == (
        "hybrid: whole, by allreduce, go a (why), b (why), c (why), d (why), and 2 more")


def test_a_forecast_of_hybrid_follows_the_same_rule():
    network = Network(in_blocks(4, 1), 5e-5, 25e6, 25e6)
    for touched, name in ((19, "server"), (20, "as-dense")):
        found = choose_plan([table(4)], sample_of(4, touched), network, 4, architecture="hybrid", whole=True)
        assert found.plan.strategies["table"].name == found.forecasts[0].strategy == name
        assert ("hybrid, some tables whole" in found.totals) == (name == "as-dense")
        assert ("bytes a step whole" in describe(found)) == (name == "as-dense")
    assert choose_plan([table(4)], sample_of(4, 24), network, 4, architecture="hybrid"
                       ).plan.strategies["table"].name == "server"
