"""Codecs in a plan: who has which, what travels together, and that prediction and report ask the plan for them."""

import numpy as np
import pytest

from models import Variable
from refimpl.collectives.simulation.network import Network
from refimpl.plan import Plan, make_plan
from refimpl.plan.buckets import buckets_of
from refimpl.plan.choose import choose_plan
from refimpl.plan.codecs import check_codecs, codecs_of, encoded
from refimpl.plan.report import headline
from refimpl.plan.sample import Sample
from refimpl.strategies import Allreduce, GatheredElements
from refimpl.training.options import Options
from refimpl.transport.machines import in_blocks

VARIABLES = [Variable("table", (400, 16), sparse=True), Variable("weight", (300, 200)), Variable("bias", (200,)),
             Variable("mean", (200,), statistic=True)]
NETWORK = Network(in_blocks(4, 1), 5e-5, 25e6, 25e6)


def chosen_with(codec, network=NETWORK, **options):
    ids = [np.arange(r, 400, 10) for r in range(4)]
    sample = Sample(4, {"table": 400}, (0,), ({"table": ids},))
    return choose_plan(VARIABLES, sample, network, 4, allreduce="direct", codec=codec, **options)


@pytest.mark.parametrize("asked, found", [
    ({}, {}), ({"dense": "bf16"}, {"weight": "bf16", "bias": "bf16"}), ({"table": "fp16"}, {"table": "fp16"}),
    ({"dense": "bf16", "bias": "identity"}, {"weight": "bf16"}),
    ({"weight": "integers:8", "dense": "bf16", "sparse": "fp16"},
     {"table": "fp16", "weight": "integers:8", "bias": "bf16"})])
def test_a_name_goes_before_a_kind_and_statistics_are_no_gradients(asked, found):
    plan = make_plan(VARIABLES, "hybrid", 4, 4, codec=asked)
    assert encoded(plan) == found == encoded(Plan.from_json(plan.to_json()))
    assert codecs_of(VARIABLES, asked) == {v.name: found.get(v.name, "identity") for v in VARIABLES}


def test_variables_of_one_codec_travel_together():
    plan = make_plan(VARIABLES, "hybrid", 4, 4, codec={"dense": "bf16", "bias": "fp16"})
    assert [bucket.names for bucket in buckets_of(plan)] == [("table",), ("weight",), ("bias",), ("mean",)]


@pytest.mark.parametrize("codec, part", [("bf16", 2), ("integers:8", 4)])
def test_predictions_are_of_the_bytes_that_travel(codec, part):
    whole, less = (chosen_with(asked, architecture="hybrid") for asked in ({}, {"dense": codec}))
    before, after = (chosen.forecasts[1].candidates["allreduce"] for chosen in (whole, less))
    assert before.card_bytes == part * after.card_bytes and before.alone > 0.7 * part * after.alone


@pytest.mark.parametrize("options", [dict(architecture="ps"), dict(architecture="allreduce"),
                                     dict(architecture="hybrid", shard_optimizer=True)], ids=str)
def test_picked_elements_travel_alike_under_every_architecture(options):
    plan = make_plan(VARIABLES, options.pop("architecture"), 4, 4, codec={"dense": "topk:0.01"}, **options)
    assert [plan.strategies[name].name for name in ("weight", "bias")] == ["elements"] * 2
    assert plan.strategies["mean"].name != "elements" and Plan.from_json(plan.to_json()) == plan
    check_codecs(plan, VARIABLES)


def test_a_kind_leaves_out_what_low_rank_would_not_make_smaller():
    plan = make_plan(VARIABLES, "ps", 4, 4, codec={"dense": "powersgd:2"})
    assert encoded(plan) == {"weight": "powersgd:2"} and plan.strategies["weight"].name == "low-rank"
    check_codecs(plan, VARIABLES)
    with pytest.raises(ValueError, match="powersgd:2 sends 402 numbers for 'bias', which has 200: leave it out"):
        check_codecs(make_plan(VARIABLES, "ps", 4, 4, codec={"bias": "powersgd:2"}), VARIABLES)
    ring = make_plan(VARIABLES, "hybrid", 4, 4, codec={"dense": "powersgd:2"}, allreduce="ring")
    with pytest.raises(ValueError, match="and --allreduce ring adds in another order"):
        check_codecs(ring, VARIABLES)


def test_where_picked_elements_do_not_fit_they_are_refused():
    plan = make_plan(VARIABLES, "hybrid", 4, 4, codec={"dense": "topk:0.01"})
    as_sums = plan.replaced({"weight": Allreduce(codec="topk:0.01")})
    with pytest.raises(ValueError, match="weight=topk:0.01: only the strategy elements carries"):
        check_codecs(as_sums, VARIABLES)
    with pytest.raises(ValueError, match="strategy elements does not carry codec bf16: say topk:RATIO or dgc:RATIO:STEPS:NORM or threshold:TAU or adacomp:BIN"):
        GatheredElements(codec="bf16").check(VARIABLES[1], 4)


def test_auto_predicts_what_is_picked():
    whole, less = chosen_with({}), chosen_with({"dense": "topk:0.001"})
    assert less.plan.strategies["weight"].name == "elements" and headline(less)
    assert min(less.totals.values()) < min(whole.totals.values())


def test_auto_takes_the_allowed_codec_that_makes_a_step_clearly_shorter():
    asked = {"dense": "bf16/integers:8", "table": "bf16"}
    found = chosen_with(asked)
    assert encoded(found.plan) == {"table": "bf16", "weight": "integers:8", "bias": "integers:8"}
    assert found.plan == chosen_with({**asked, "dense": "integers:8"}).plan
    assert list(found.totals)[:2] == ["auto", "auto, not encoded"]
    assert found.totals["auto"] < 0.4 * found.totals["auto, not encoded"]
    assert encoded(chosen_with({"dense": "fp16/bf16"}).plan) == {"weight": "fp16", "bias": "fp16"}  # the first of equals


def test_auto_encodes_nothing_where_to_encode_takes_longer_than_to_send():
    fast = Network(in_blocks(4, 1), 5e-5, 25e9, 25e9, reduction=1e9)
    assert encoded(chosen_with({"dense": "bf16/integers:8"}, fast).plan) == {}
    with pytest.raises(ValueError, match="no codec 'int'; there are"):
        chosen_with({"dense": "bf16/int"})


def test_only_auto_chooses_a_codec():
    assert Options(codec={"dense": "bf16/fp16"}, architecture="auto")
    with pytest.raises(ValueError, match="dense=bf16/fp16 allows several codecs, of which --architecture auto takes one"):
        Options(codec={"dense": "bf16/fp16"})


def test_a_codec_that_is_no_string_is_refused():
    for wrong in ({}, 16, None):
        with pytest.raises(ValueError, match=f"the codec of 'dense' is {wrong}: give its name as a string"):
            Options(codec={"dense": wrong})


def test_the_report_says_what_is_encoded():
    chosen = chosen_with({"dense": "bf16", "sparse": "fp16"})
    assert ", allreduce direct, 1 gradient as fp16, 2 gradients as bf16, rows of" in headline(chosen)
    assert "gradient" not in headline(chosen_with({}))
