"""Transformations of optax: as in a loop of optax, or refused by name."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from mpi4py import MPI
from toy_losses import data_of, model_of

from models import Batch
from refimpl import train
from refimpl.jax import JaxModel, optax_options
from refimpl.training.options import Options

optax = pytest.importorskip("optax")
PAGE = (Path(__file__).parents[2] / "docs/jax.md").read_text(encoding="utf-8")
STEPS = 6
FALLING = optax.join_schedules([optax.linear_schedule(0.0, 0.1, 2), optax.cosine_decay_schedule(0.1, 5)], [2])
KNOWN = {
    "`sgd(rate)`": optax.sgd(0.1), "`sgd(rate, momentum)`": optax.sgd(0.1, momentum=0.8),
    "`sgd(schedule, momentum, nesterov=True)`": optax.sgd(FALLING, 0.9, nesterov=True),
    "`adam(rate, b1, b2, eps)`": optax.adam(0.05, b1=0.8, b2=0.95, eps=1e-4),
    "`adamw(schedule, weight_decay)`": optax.adamw(FALLING, weight_decay=0.2),
    "`chain(clip_by_global_norm, add_decayed_weights, …)`": optax.chain(
        optax.clip_by_global_norm(0.5), optax.add_decayed_weights(0.1), optax.sgd(0.1, 0.9)),
    "`chain(scale_by_adam, scale_by_schedule, scale)`": optax.chain(
        optax.identity(), optax.scale_by_adam(), optax.scale_by_schedule(FALLING), optax.scale(-1.0)),
    "a schedule in Python": optax.sgd(lambda step: 0.1 if int(step) < 2 else 0.05),
    "`adamw(…, mask)`": optax.adamw(0.1, weight_decay=0.2, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1,
                                                                                            params)),
    "`masked(add_decayed_weights, mask)`": optax.chain(
        optax.masked(optax.add_decayed_weights(0.1), {"hidden": True, "out": False}), optax.sgd(FALLING, 0.9)),
    "`multi_transform` of one optimizer, with rates and decays": optax.chain(
        optax.clip_by_global_norm(0.5), optax.multi_transform(
            {"decay": optax.adamw(FALLING, weight_decay=0.2), "none": optax.adam(lambda step: 2 * FALLING(step))},
            {"hidden": {"w": "decay", "b": "none"}, "out": "none"})),
    "`multi_transform` with `set_to_zero`": optax.multi_transform(
        {"trained": optax.adam(0.05), "frozen": optax.set_to_zero()}, {"hidden": "frozen", "out": "trained"}),
}


def squared(params, batch):
    out = jnp.tanh(batch.inputs @ params["hidden"]["w"] + params["hidden"]["b"]) @ params["out"]
    return ((out - batch.targets) ** 2).sum()


def parameters():
    random = np.random.default_rng(2)
    return {"hidden": {"w": random.standard_normal((6, 5)), "b": random.standard_normal(5)},
            "out": random.standard_normal(5)}


@pytest.mark.thorough("adamw", "nesterov", "clip_by_global_norm")
@pytest.mark.parametrize("name", KNOWN)
def test_a_training_is_the_loop_of_optax(name):
    with jax.enable_x64(True):
        data, lines, params = data_of(2, 4, "float64", shuffle=False), [], parameters()
        model = JaxModel(squared, parameters())
        train(model, data, comm=MPI.COMM_SELF, options=optax_options(KNOWN[name], STEPS, model),
              progress=lambda line: lines.append(line["loss"]))
        state, compute = KNOWN[name].init(params), jax.jit(jax.value_and_grad(
            lambda params, inputs, targets: squared(params, Batch(inputs, targets))))
        for step, line in enumerate(lines):
            parts = [compute(params, batch.inputs, batch.targets) for batch in map(data.microbatch, (step,) * 2, range(2))]
            assert sum(loss for loss, _ in parts) / data.examples(step) == pytest.approx(line, rel=1e-9), step
            gradient = jax.tree.map(lambda *g: sum(g) / data.examples(step), *(g for _, g in parts))
            change, state = KNOWN[name].update(gradient, state, params)
            params = optax.apply_updates(params, change)
    assert len(set(lines)) == STEPS


REFUSED = {
    "`rmsprop`": (optax.rmsprop(0.1), "optax's scale_by_rms is not known here, .* take one of those, or Options"),
    "`lamb`": (optax.lamb(0.1), "optax's scale_by_trust_ratio is not known here"),
    "`multi_transform` of several optimizers": (
        optax.multi_transform({"a": optax.adam(0.1), "b": optax.sgd(0.1)}, {"hidden": "a", "out": "b"}),
        "optax's groups have optimizer='adam' and 'sgd': groups may differ only .* a loop of your own, refimpl.jax.Trainer"),
    "`masked(clip_by_global_norm, mask)`": (
        optax.chain(optax.masked(optax.clip_by_global_norm(1.0), {"hidden": True, "out": False}), optax.sgd(0.1)),
        "optax's clip_by_global_norm within a mask is not known here"),
    "`masked(sgd(rate), mask)`": (optax.masked(optax.sgd(0.1), {"hidden": True, "out": False}),
                                  "a learning rate of 1.0, with which the loss would grow"),
    "`nadam`": (optax.nadam(0.1), "optax's scale_by_adam with nesterov is not known here"),
    "`adam(…, eps_root)`": (optax.adam(0.1, eps_root=1e-3), "optax's scale_by_adam with eps_root is not known here"),
    "`chain(scale_by_adam, clip_by_global_norm, …)`": (
        optax.chain(optax.scale_by_adam(), optax.clip_by_global_norm(1.0), optax.scale(-0.1)),
        "clip_by_global_norm cannot come after scale_by_adam here"),
    "`chain(trace, scale_by_adam, …)`": (optax.chain(optax.trace(0.9), optax.adam(0.1)),
                                         "scale_by_adam cannot come after trace here"),
    "`noisy_sgd`": (optax.noisy_sgd(0.1, key=0), "optax's add_noise is not known here"),
    "`scale(rate)`": (optax.scale(0.1), "the loss would grow: end it by optax.scale_by_learning_rate"),
    "`MultiSteps`": (optax.MultiSteps(optax.sgd(0.1), 2), "optax's MultiSteps.update is not known here"),
    "`inject_hyperparams`": (optax.inject_hyperparams(optax.sgd)(0.1), "optax's inject_hyperparams is not known here"),
}


def test_the_page_has_a_row_for_each():
    text = PAGE.partition("## An optimizer of optax")[2].partition("\n## ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")][2:]
    assert [row[0].strip() for row in rows] == [*KNOWN, *REFUSED]
    assert [row[0].strip() for row in rows if "refused" in row[1]] == list(REFUSED)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused_by_name(name):
    optimizer, words = REFUSED[name]
    with pytest.raises(ValueError, match=words), jax.enable_x64(True):
        optax_options(optimizer, STEPS, JaxModel(squared, parameters()))


def test_groups_are_the_variables_own_until_others_are_said():
    with jax.enable_x64(True):
        model = JaxModel(squared, parameters())
        options = optax_options(KNOWN["`multi_transform` with `set_to_zero`"], STEPS, model)
        own = {v.name: v.learning_rate for v in model.variables}
        assert own == {"hidden.b": 0.0, "hidden.w": 0.0, "out": options.learning_rate}
        optax_options(optax.adam(0.05), STEPS, model)
    assert {(v.learning_rate, v.weight_decay) for v in model.variables} == {(None, None)}


def scale(step_size):
    """A link with the name of one of optax, which does something else."""
    return optax.GradientTransformation(
        lambda params: optax.EmptyState(),
        lambda updates, state, params=None: (jax.tree.map(lambda g: step_size * jnp.sign(g), updates), state))


def test_a_link_that_does_something_else_is_found():
    assert scale(1.0).update.__qualname__.startswith("scale.<locals>")
    with pytest.raises(ValueError, match="this transformation of optax differs from sgd with the same settings"):
        optax_options(scale(-0.1), STEPS)


def test_rows_without_gradient():
    """optax moves them, except by sgd: so one says that only rows with a gradient are to move."""
    model = model_of("rated")
    assert optax_options(optax.sgd(0.1), 3, model).optimizer == "sgd"
    with pytest.raises(ValueError, match=r"items, tags is a table, and adam changes all its rows .* by_row=True"):
        optax_options(optax.adam(0.1), 3, model)
    assert optax_options(optax.adam(0.1), 3, model, by_row=True, architecture="ps") == Options(
        steps=3, optimizer="adam", learning_rate=0.1, architecture="ps",
        optimizer_options={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})
