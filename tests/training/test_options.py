"""Options, learning rates, and what ranks say to each other about themselves."""

import json
import math
import re
from collections import OrderedDict
from dataclasses import fields

import numpy as np
import pytest

from kernels.update import OPTIMIZERS
from kernels.update.rates import RATES, rate_of
from models import Constant, Uniform, Variable
from refimpl.plan import make_plan
from refimpl.training.agreement import describe_variable
from refimpl.training.expected import MEANT
from refimpl.training.memory import members_of
from refimpl.training.options import MATHEMATICS, Options
from refimpl.training.session import train

OWN_LOOP = "refimpl.torch.Trainer, takes any optimizer and scheduler of torch.optim"


def test_options_survive_json():
    options = Options(optimizer="adam", optimizer_options={"beta1": 0.8}, clip_norm=1.5, partitions=3)
    assert Options.from_json(json.loads(json.dumps(options.to_json()))) == options
    assert options.rate_steps == options.steps == 300


def test_every_option_either_changes_numbers_or_none():
    settings = {"architecture", "sparse_as_dense", "partitions", "scheme", "allreduce", "shared_memory", "steps",
            "local_aggregation", "overlap", "plan", "search_partitions", "memory_limit", "balance",
            "search_warmup", "search_sample", "hot_rows", "transport", "channel", "slow_rank", "shard_optimizer", "mesh"}
    place = {"device"}  # other bits, of the same training: a run may go on elsewhere
    assert {f.name for f in fields(Options)} == settings | place | set(MATHEMATICS) and not settings & set(MATHEMATICS)


@pytest.mark.parametrize("changes, words", [
    (dict(architecture="auto", shard_optimizer=True), "works only with --architecture allreduce or hybrid"),
    (dict(rate="square"), "no rate 'square'; there are constant"),
    (dict(optimizer="adam", optimizer_options={"mu": 1}), "adam has no option mu; it has beta1, beta2, epsilon"),
    (dict(optimizer="sgd", optimizer_options={"mi": 1}), "it has none"),
    (dict(optimizer="momentum", optimizer_options={"dampening": 0.5}), "no option dampening; it has mu; a loop of your"),
    (dict(optimizer="adamw", optimizer_options={"amsgrad": True}), "adamw has no option amsgrad"),
    (dict(optimizer="adam", optimizer_options={"beta1": "0.9"}), "beta1 is '0.9': it must be a finite number"),
    (dict(optimizer="adam", optimizer_options={"beta1": math.nan}), "beta1 is nan"),
    (dict(steps=-1), "steps is -1"), (dict(warmup=-1), "warmup is -1"),
    (dict(learning_rate=-0.1), "learning_rate is -0.1"),
    (dict(learning_rate=math.nan), "learning_rate is nan"), (dict(weight_decay=-1e-9), "weight_decay is -1e-09"),
    (dict(codec={"dense": "gzip"}), "no codec 'gzip'; there are identity, bf16, fp16, integers:8|16|32"),
    (dict(codec={"dense": "integers:12"}), "codec integers:12: give integers:8|16|32"),
    (dict(codec={"dense": "bf16:2"}), "codec bf16 has no parameter '2': leave it out"),
    (dict(codec={"dense": "bf16"}, plan={}), "the plan already says how gradients are encoded"),
    (dict(clip_norm=0), "clip_norm is 0"), (dict(clip_norm=math.nan), "clip_norm is nan"),
    (dict(steps="3"), "steps is '3': it must be a whole number"), (dict(steps=2.5), "steps is 2.5"),
    (dict(steps=True), "steps is True"), (dict(learning_rate="0.1"), "learning_rate is '0.1': it must be a finite"),
    (dict(learning_rate=math.inf), "learning_rate is inf"), (dict(learning_rate=False), "learning_rate is False"),
    (dict(overlap=1), "overlap is 1: it must be True or False or None"), (dict(seed=None), "seed is None"),
    (dict(optimizer=None), "optimizer is None"), (dict(optimizer_options=None), "it must be a dict"),
    (dict(optimizer="adam", optimizer_options={"beta1": True}), "beta1 is True"),
    (dict(optimizer="adam", optimizer_options={"beta1": 1}), "beta1 is 1: it must be at least 0 and below 1"),
    (dict(optimizer="adam", optimizer_options={"beta2": -3.0}), "beta2 is -3.0: it must be at least 0 and below 1"),
    (dict(optimizer="adam", optimizer_options={"epsilon": 0}), "adam's option epsilon is 0: it must be above 0"),
    (dict(optimizer="adagrad", optimizer_options={"epsilon": -1}), "epsilon is -1: it must be at least 0"),
    (dict(optimizer="momentum", optimizer_options={"mu": 5}), "momentum's option mu is 5: it must be at least 0 and"),
    (dict(optimizer="adam", optimizer_options={3: 1, "b": 2}), "adam has no option 3, b"),
    (dict(rate_steps=-1), "rate_steps is -1: it must be at least 0"), (dict(steps=2.0), "steps is 2.0"),
    (dict(learning_rate=10**400), "it must be a finite number"), (dict(learning_rate=np.ones(1)), "finite number"),
    (dict(channel="shared", consistency="asynchronous"), "--channel shared carries a synchronous training's arrays in"),
    (dict(channel="shared", device="cuda"), "--channel shared carries a synchronous training's arrays in host memory"),
    (dict(hot_rows=-1), "hot_rows is -1: give a number of rows, or auto"), (dict(slow_rank={"2": 0.5}), "at least 1"),
    (dict(search_sample=0), "search_sample is 0: it must be at least 1"),
    (dict(precision="fp8"), "no precision 'fp8'; there are bf16, fp16"),
    (dict(steps=np.True_), "steps is"), (dict(weight_decay=np.array(np.inf)), "it must be a finite number"),
    (dict(optimizer="nadam"), OWN_LOOP), (dict(optimizer="AdamW"), "there are sgd, momentum, nesterov, adagrad, adam"),
    (dict(optimizer=object()), OWN_LOOP), (dict(learning_rate=lambda step: 0.1), OWN_LOOP),
    (dict(rate="exponential"), OWN_LOOP), (dict(rate=lambda step: -1.0), "the rate of step 0 is -1.0: it must be a"),
    (dict(rate=lambda step: "1"), "the rate of step 0 is '1'"), (dict(rate=[1.0, None]), "the rate of step 1 is None"),
    (dict(rate=lambda step: 1.0, warmup=3), "warmup is 3, but rate already says the factor of each step"),
    (dict(rate=lambda step: 1.0, steps=1 << 21), "the limit is 1048576: give the name of a rate, and rate_steps"),
    (dict(optimizer="adagrad", optimizer_options={"nesterov": True}), OWN_LOOP),
    (dict(optimizer="adam", optimizer_options={"betas": (0.9, 1.5)}), "beta2 is 1.5: it must be at least 0 and"),
    (dict(optimizer="adam", optimizer_options={"betas": (0.9,)}), "adam has no option betas; it has beta1, beta2"),
])
def test_refusals(changes, words):
    with pytest.raises(ValueError) as caught:
        Options(**changes)
    assert words in str(caught.value)


@pytest.mark.parametrize("name", MEANT)
def test_another_frameworks_words_are_refused_with_ours(name):
    for ask in (lambda: Options(**{name: 1}), lambda: train(None, None, **{name: 1})):
        with pytest.raises(TypeError) as caught:
            ask()
        assert str(caught.value) == f"{name} is unknown here: {MEANT[name]}"


def test_other_words_stay_pythons_own_errors():
    with pytest.raises(TypeError, match="unexpected keyword argument 'teleport'"):
        Options(teleport=1)


@pytest.mark.parametrize("data, words", [
    ({"teleport": 1}, r"unknown field 'teleport' - at `\$.options`"),
    ({"steps": "9"}, r"Expected `int`, got `str` - at `\$.options.steps`"),
    ({"hot_rows": 2.5}, r"Expected `int \| str`, got `float` - at `\$.options.hot_rows`"),
    ({"warmup": -1}, r"warmup is -1: it must be at least 0 - at `\$.options`"),
    ([], r"Expected `object`, got `array` - at `\$.options`"),
])
def test_what_is_no_json_of_options_is_refused_with_its_place(data, words):
    with pytest.raises(ValueError, match=words):
        Options.from_json(data)


def test_what_can_mean_only_one_thing_is_taken():
    """NumPy's numbers, arrays of one, and any kind of dict."""
    given = OrderedDict(beta1=np.array(0.5), beta2=np.float64(0.25))
    options = Options(steps=np.int64(3), warmup=np.array(1), learning_rate=np.float32(0.5), overlap=np.True_,
                      optimizer="adam", optimizer_options=given, plan=OrderedDict(a=1))
    assert options == Options(steps=3, warmup=1, learning_rate=0.5, overlap=True, optimizer="adam",
                              optimizer_options={"beta1": 0.5, "beta2": 0.25}, plan={"a": 1})
    assert type(options.plan) is dict and given["beta1"].shape == ()
    json.dumps(options.to_json())


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_option_of_an_optimizer_has_a_bound_that_its_default_keeps(name):
    optimizer = OPTIMIZERS[name]
    assert set(optimizer.bounds) == set(optimizer.options)
    Options(optimizer=name, optimizer_options=optimizer.options)


@pytest.mark.parametrize("asked, name, told", [
    ({"momentum": 0.8, "nesterov": True, "dampening": 0, "maximize": False}, "nesterov", {"mu": 0.8}),
    ({"momentum": 0.8, "nesterov": False}, "momentum", {"mu": 0.8}), ({"momentum": 0}, "sgd", {}),
])
def test_sgd_in_pytorchs_words(asked, name, told):
    found = Options(optimizer="sgd", optimizer_options=asked)
    assert (found.optimizer, found.optimizer_options) == (name, told) and found == Options.from_json(found.to_json())


def test_pytorchs_names_are_taken():
    given = Options(optimizer="adam", optimizer_options={"betas": (0.5, 0.75), "eps": 1e-6})
    assert given == Options(optimizer="adam", optimizer_options={"beta1": 0.5, "beta2": 0.75, "epsilon": 1e-6})
    assert Options(optimizer="momentum", optimizer_options={"momentum": 0.5}).optimizer_options == {"mu": 0.5}


def test_a_function_is_the_rate():
    options = Options(rate=lambda step: 0.5**step, steps=4)
    assert options.rate == [1.0, 0.5, 0.25, 0.125] and options == Options.from_json(options.to_json())
    found = [rate_of(step, base=0.2, rate=options.rate, warmup=0, steps=4) for step in range(6)]
    assert found == [0.2, 0.1, 0.05, 0.025, 0.025, 0.025]


def test_adamws_decay_is_pytorchs_unless_another_is_said():
    assert Options(optimizer="adamw").weight_decay == 0.01 and Options(optimizer="adam").weight_decay == 0.0
    assert Options(optimizer="adamw", weight_decay=0).weight_decay == 0.0


@pytest.mark.parametrize("rate", sorted(RATES.keys() - {"one-cycle"}))
def test_rates_rise_then_fall(rate):
    values = [rate_of(step, base=0.5, rate=rate, warmup=4, steps=24) for step in range(40)]
    assert values[:4] == [0.125, 0.25, 0.375, 0.5] and values[4] == 0.5
    assert all(a >= b for a, b in zip(values[4:], values[5:])) and len(set(values[24:])) == 1
    end = {"constant": 0.5, "linear": 0.0, "cosine": 0.0, "inverse-sqrt": 0.05}[rate]
    assert values[24] == pytest.approx(end, rel=1e-15, abs=1e-16)  # cos and sqrt round
    middle = {"constant": 0.5, "linear": 0.25, "cosine": 0.25, "inverse-sqrt": 0.5 / math.sqrt(50.5)}[rate]
    assert values[14] == pytest.approx(middle, rel=1e-15)


def test_rates_at_the_edges():
    assert rate_of(0, base=1.0, rate="linear", warmup=0, steps=0) == 1.0
    assert rate_of(5, base=1.0, rate="linear", warmup=5, steps=5) == 1.0
    assert rate_of(6, base=1.0, rate="linear", warmup=5, steps=5) == 0.0
    assert rate_of(0, base=0.0, rate="cosine", warmup=3, steps=9) == 0.0


def test_a_variable_is_described_by_all_that_matters():
    plain = Variable("a", (2, 3), initial=Uniform(0.5))
    assert describe_variable(plain) == "float32 (2, 3) from Uniform(limit=0.5)"
    assert describe_variable(Variable("b", (2, 3), sparse=True, dtype="float64", decays=False, clipped=False)) == (
        "float64 (2, 3) sparse not decays not clipped from Constant(value=0.0)")

    class Own:
        elements = Constant.elements

    assert describe_variable(Variable("c", (), statistic=True, initial=Own())) == "float32 () statistic from Own"


@pytest.mark.parametrize("changes, members", [
    ({}, 1), ({"mesh": "auto"}, 4), ({"mesh": "2x2"}, 2), ({"mesh": "4x1"}, 1), ({"plan": [3, 2]}, 2),
    ({"plan": []}, 1),
    ({"mesh": "3x2"}, "that is 6 ranks, and there are 4"), ({"plan": [4]}, "the mesh is [4]: give two numbers"),
    ({"plan": 5}, "Expected `array`, got `int` - at `$.mesh`")])
def test_how_many_share_a_cut_layer_is_known_before_it_is_made(changes, members):
    """A plan's ranks are looked at later; here it only must not be misread."""
    if "plan" in changes:
        plan = make_plan([Variable("w", (4, 2))], "allreduce", 6, 6).to_json()
        changes = {"plan": {**plan, "mesh": changes["plan"]}}
    options = Options(optimizer="sgd", learning_rate=0.1, steps=1, **changes)
    if isinstance(members, int):
        assert members_of(options, 4) == members
    else:
        with pytest.raises(ValueError, match=re.escape(members)):
            members_of(options, 4)
