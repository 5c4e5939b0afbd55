"""Buckets: every variable once, one strategy each, in the order of a backward pass."""

from dataclasses import replace

import pytest

from models import Variable
from models.cnn import PRESETS as CNN_PRESETS, ConvNet
from models.lm import PRESETS, LanguageModel
from refimpl.plan import make_plan
from refimpl.plan.buckets import Bucket, buckets_of, with_buckets
from refimpl.strategies import Allreduce, ServedRows

ROWS = [Variable("words", (9, 2), sparse=True), Variable("kernel", (50, 2)), Variable("bias", (2,)),
        Variable("weight", (9, 4), sparse=True), Variable("rare", (9, 1), sparse=True),
        Variable("other", (8, 1), sparse=True)]


def named(plan, variables, **settings):
    return list(with_buckets(plan, variables, **settings).buckets)


def test_a_plan_without_buckets_has_one_for_each_strategy():
    plan = make_plan(ROWS, "hybrid", 3, 4)
    assert buckets_of(plan) == [Bucket(ServedRows, ("words", "weight", "rare", "other")),
                                Bucket(Allreduce, ("kernel", "bias"))]


def test_neighbours_with_as_many_rows_go_together_in_backward_order():
    expected = [("other",), ("weight", "rare"), ("kernel", "bias"), ("words",)]
    assert named(make_plan(ROWS, "hybrid", 3, 4), ROWS) == expected


def test_the_language_model():
    variables = LanguageModel(**{**PRESETS["tiny"], "layers": 2, "embedding": 6}).variables
    size = sum(v.nbytes for v in variables if v.name.startswith("lstm1/"))
    for architecture in ("hybrid", "allreduce"):
        assert named(make_plan(variables, architecture, 2, 4), variables, largest=size) == [
            ("softmax_weight", "softmax_bias"), ("lstm1/kernel", "lstm1/bias", "lstm1/projection"),
            ("lstm0/kernel", "lstm0/bias", "lstm0/projection"), ("embedding",)]


@pytest.mark.parametrize("architecture", ["hybrid", "allreduce", "ps"])
@pytest.mark.parametrize("largest", [1, 100, 1000, 1 << 30])
def test_dense_buckets_hold_so_many_bytes(architecture, largest):
    variables = ConvNet((8, 8, 1), 5, **CNN_PRESETS["tiny"]).variables
    plan = with_buckets(make_plan(variables, architecture, 3, 4), variables, largest=largest)
    sizes = {v.name: v.nbytes for v in variables}
    room = largest * (3 if architecture == "ps" else 1)
    assert all(sum(sizes[n] for n in names) <= room or len(names) == 1 for names in plan.buckets)
    assert [n for names in reversed(plan.buckets) for n in names] == [v.name for v in variables]
    assert all(sum(sizes[n] for n in [*a, *b[-1:]]) > room for a, b in zip(plan.buckets, plan.buckets[1:]))
    assert type(plan).from_json(plan.to_json()) == plan and with_buckets(plan, variables) == plan


@pytest.mark.parametrize("buckets, words", [
    ((("words", "weight", "rare", "other"), ("kernel",)), "name each variable once; look at bias"),
    ((("words", "weight", "rare", "other"), ("kernel", "bias"), ("bias",)), "look at bias"),
    ((("words", "weight", "rare", "other", "ghost"), ("kernel", "bias")), "look at ghost"),
    ((("words", "weight", "rare", "kernel"), ("other",), ("bias",)), "mixes strategies, codecs or kinds"),
    ((("words", "weight", "rare", "other"), (), ("kernel", "bias")), "is empty"),
])
def test_buckets_that_mean_nothing_are_refused(buckets, words):
    plan = replace(make_plan(ROWS, "hybrid", 3, 4), buckets=buckets)
    with pytest.raises(ValueError, match=words):
        buckets_of(plan)
