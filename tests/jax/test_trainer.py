"""A loop of one's own is the loop of optax, to the bit where there is one microbatch; refusals by name."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_modules import INSTALLED, KINDS, RATE, STEPS, data_of as texts, model_of as module_of
from mpi4py import MPI
from test_modules import arrays_of
from test_optax import KNOWN, PAGE, REFUSED as NOT_OPTIONS, parameters, squared
from toy_losses import data_of, model_of

from refimpl import Options, train
from refimpl.jax import JaxModel, Microbatch, Trainer, optax_options
from refimpl.training.run.whole import hashes
from refimpl.transport import CollectiveError

optax = pytest.importorskip("optax")
ADAM, SGD = optax.adam(0.05), optax.sgd(0.05)


def trainer_of(model, optimizer=None, **more):
    return Trainer(model, optimizer, comm=MPI.COMM_SELF, **more)


def loop(trainer, data, steps=STEPS, **more):
    """Do so many steps, over epochs; return their losses. more: functions of the loss, for the transformation."""
    found = []
    while True:
        for batch in trainer.shard(data):
            loss, gradient = trainer.value_and_grad(batch)
            trainer.step(gradient, **{name: function(loss) for name, function in more.items()})
            found.append(loss)
            if len(found) == steps:
                return found


@pytest.mark.thorough("linen")
@pytest.mark.parametrize("kind", INSTALLED)
def test_a_loop_of_a_module_is_the_plain_loop(kind):
    """With a table, batch norm and dropout, and the values that gather returns."""
    with jax.enable_x64(True):
        data, trainer = texts(dtype="float64"), trainer_of(module_of(kind, "float64"), optax.sgd(RATE),
                                                           rows=optax.sgd(RATE))
        losses, learned = KINDS[kind][2](data, "float64")
        assert np.allclose(loop(trainer, data), losses, rtol=1e-11, atol=0) and len(set(losses)) == STEPS
        ours, theirs = arrays_of(kind, trainer.gather()), arrays_of(kind, learned)
        assert theirs.keys() <= ours.keys()  # an nnx module has random streams, too
        for name, value in theirs.items():
            assert np.allclose(ours[name], value, rtol=1e-9, atol=1e-12), name


@pytest.mark.thorough("linen")
@pytest.mark.parametrize("kind", INSTALLED)
def test_a_mask_has_the_tree_of_a_module(kind):
    """As a function and as a tree, in a training and in a loop: no bias and no factor of a norm decays."""
    def mask(tree):
        return jax.tree.map(lambda leaf: leaf.ndim > 1, tree)

    model = module_of(kind)
    whole = model.trained({v.name: model.parts.leaves[v.name] for v in model.variables if not v.statistic})
    for given in (mask, mask(whole)):
        optimizer = optax.adamw(0.1, weight_decay=0.2, mask=given)
        optax_options(optimizer, STEPS, model, by_row=True)
        assert {v.weight_decay for v in model.variables if len(v.shape) == 2} == {0.2}
        assert {v.weight_decay for v in model.variables if len(v.shape) != 2 and not v.statistic} == {0.0}
    loop(trainer_of(model, optimizer, rows=ADAM), texts(), 1)


OPTAX = {name: (optimizer, {}) for name, optimizer in KNOWN.items() if name != "a schedule in Python"} | {
    name: (optimizer, {}) for name, (optimizer, _) in NOT_OPTIONS.items()} | {
    "muon": (optax.contrib.muon(0.05), {}),
    "reduce_on_plateau": (optax.chain(ADAM, optax.contrib.reduce_on_plateau(patience=1)), {"value": lambda loss: loss}),
}


def plain(optimizer, params, data, more):
    """Return (losses, parameters) of optax's own loop, compiled as a user does, on the same batches."""
    gradient = jax.jit(jax.value_and_grad(lambda params, batch, count: squared(params, batch) / count))

    @jax.jit
    def update(gradient, state, params, more):
        updates, state = optimizer.update(gradient, state, params, **more)
        return optax.apply_updates(params, updates), state

    params, losses = jax.tree.map(jnp.asarray, params), []
    state = optimizer.init(params)
    for step in range(STEPS):
        batches = [data.microbatch(step, v) for v in range(data.microbatches)]
        parts = [gradient(params, Microbatch(batch.inputs, batch.targets, None, {}, None), float(data.examples(step)))
                 for batch in batches if batch is not None]
        losses.append(sum(float(loss) for loss, _ in parts))
        params, state = update(jax.tree.map(lambda *g: sum(g), *(g for _, g in parts)), state, params,
                               {name: function(losses[-1]) for name, function in more.items()})
    return losses, params


def both(name, dtype, microbatches):
    """Return (losses, parameters) of a loop here, and of optax's."""
    optimizer, more = OPTAX[name]
    data = data_of(microbatches, 16 // microbatches, dtype)
    given = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters())
    trainer = trainer_of(JaxModel(squared, given), optimizer)
    return (loop(trainer, data, **more), trainer.gather()), plain(optimizer, given, data, more)


@pytest.mark.thorough("lamb", "several", "MultiSteps", "plateau")
@pytest.mark.parametrize("name", OPTAX)
def test_a_loop_is_the_loop_of_optax_to_the_bit(name):
    """Any transformation moves dense variables: those that optax_options refuses, too."""
    (found, ours), (wanted, theirs) = both(name, "float32", 1)
    assert found == wanted and len(set(found)) > 1
    assert all(np.array_equal(*pair) for pair in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)))


def test_microbatches_are_added_up():
    with jax.enable_x64(True):
        (found, ours), (wanted, theirs) = both("`rmsprop`", "float64", 4)
    assert found == pytest.approx(wanted, rel=1e-11) and len(set(found)) == STEPS
    assert all(np.allclose(*pair, 1e-9, 1e-12) for pair in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)))


def test_our_own_optimizers_give_the_bits_of_train():
    """With tables, a rate that falls, and clipping."""
    optimizer, losses = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(optax.cosine_decay_schedule(0.1, 5))), []
    options = optax_options(optimizer, STEPS, model_of("rated"), by_row=True)
    trainer = trainer_of(model_of("rated"), options=options)
    found = loop(trainer, data_of(4))
    result = train(model_of("rated"), data_of(4), options=options, comm=MPI.COMM_SELF,
                   progress=lambda line: losses.append(line["loss"]))
    assert found == losses
    assert hashes(trainer.base.parameters) == {"parameters_sha256": result.parameters_sha256,
                                               "state_sha256": result.state_sha256}


def test_rows_move_as_in_a_training():
    """Rows by adam with a schedule, dense variables by optax's adam: as train does it, but for optax's rounding."""
    adam, losses = optax.adam(optax.linear_schedule(0.1, 0.01, 4)), []
    trainer = trainer_of(model_of("rated"), adam, rows=adam, options=Options(clip_norm=0.5))
    found = loop(trainer, data_of(4))
    train(model_of("rated"), data_of(4), comm=MPI.COMM_SELF, progress=lambda line: losses.append(line["loss"]),
          options=optax_options(adam, STEPS, model_of("rated"), by_row=True, clip_norm=0.5))
    assert found == pytest.approx(losses, rel=1e-4) and len(set(found)) == STEPS


def test_going_on_from_a_state_dict():
    """Kept as bytes, loaded into another Trainer: it ends as one that was not interrupted."""
    def made():
        return trainer_of(model_of("rated"), optax.adamw(0.05), rows=ADAM)

    trainer, data = made(), data_of(4)
    loop(trainer, data, data.steps_per_epoch)
    kept = pickle.dumps(jax.tree.map(np.asarray, trainer.state_dict()))
    loop(trainer, data, data.steps_per_epoch)
    again = made()
    again.load_state_dict(pickle.loads(kept))
    loop(again, data, data.steps_per_epoch)
    for ours, theirs in zip(jax.tree.leaves(trainer.state_dict()), jax.tree.leaves(again.state_dict()), strict=True):
        assert np.array_equal(ours, theirs)
    other = trainer_of(model_of("rated"), SGD, rows=ADAM)
    other.load_state_dict(pickle.loads(kept))
    with pytest.raises(CollectiveError, match="the state belongs to another transformation of optax"):
        other.shard(data)


def test_a_batch_may_be_left_out_and_a_gradient_changed():
    """What the transformation sees is what step is given."""
    trainer = trainer_of(model_of("rated", dense=True), optax.sgd(1.0))
    for batch in trainer.shard(data_of(4)):
        trainer.value_and_grad(batch)
        trainer.zero_grad()
    before = trainer.params
    _, gradient = trainer.value_and_grad(batch)
    trainer.step(jax.tree.map(lambda leaf: jnp.full_like(leaf, 0.25), gradient))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(trainer.params), strict=True):
        assert np.array_equal(new, old - np.float32(0.25)) and not np.array_equal(new, old)


def test_a_rate_that_the_user_changes():
    """inject_hyperparams keeps it in the state, which is the user's."""
    trainer, data = trainer_of(model_of("rated", dense=True), optax.inject_hyperparams(optax.sgd)(0.1)), data_of(4)
    for batch in trainer.shard(data):
        trainer.step(trainer.value_and_grad(batch)[1])
    trainer.opt_state.hyperparams["learning_rate"] = 0.0
    before = trainer.params
    for batch in trainer.shard(data):
        trainer.step(trainer.value_and_grad(batch)[1])
    assert all(map(np.array_equal, jax.tree.leaves(before), jax.tree.leaves(trainer.params)))


MASKED = {"hidden": True, "items": True, "tags": False, "out": False}
CLIPPED = optax.chain(optax.clip_by_global_norm(1.0), ADAM)
BEFORE = {
    "a module": (lambda: trainer_of(squared, ADAM), "the model is .*: give a LinenModel, NnxModel"),
    "a name": (lambda: trainer_of(model_of("rated"), "adam"), "the optimizer is 'adam': give a transformation of opt"),
    "no rows": (lambda: trainer_of(model_of("rated"), ADAM),
                r"items, tags is a table, .* rows=optax.adam\(0.001\)\), .* dense=\['items'\]"),
    "rows of no table": (lambda: trainer_of(model_of("rated", dense=True), ADAM, rows=SGD), "leave rows out"),
    "rows alone": (lambda: trainer_of(model_of("rated"), rows=ADAM), "rows are given, and no optimizer of the dense"),
    "rows that are not known": (lambda: trainer_of(model_of("rated"), ADAM, rows=optax.rmsprop(0.1)),
                                "optax's scale_by_rms is not known here"),
    "rows that are clipped": (lambda: trainer_of(model_of("rated"), ADAM, rows=CLIPPED),
                              r"rows clips by a norm.* say Options\(clip_norm=...\)"),
    "`clip_by_global_norm` in a model with tables": (
        lambda: trainer_of(model_of("rated"), CLIPPED, rows=ADAM),
        r"of several variables at once, .* those of items, tags: clip by Options"),
    "a mask that looks at a table": (lambda: trainer_of(
        model_of("rated"), optax.adamw(0.1, mask=lambda params: jax.tree.map(
            lambda leaf: leaf.ndim > 1, params, is_leaf=lambda leaf: leaf is None)), rows=ADAM), "looks at a table"),
    "a transformation that needs the loss, in a model with tables": (lambda: trainer_of(
        model_of("rated"), OPTAX["reduce_on_plateau"][0], rows=ADAM), "this transformation computes with the loss"),
    "`lbfgs`": (lambda: trainer_of(model_of("rated", dense=True), optax.lbfgs()), "computes the loss again within"),
    "`lookahead`": (lambda: trainer_of(model_of("rated", dense=True), optax.lookahead(ADAM, 2, 0.5)),
                    "needs parameters of a form of its own"),
    "options that say it, too": (lambda: trainer_of(model_of("rated"), ADAM, rows=ADAM, options=Options(
        weight_decay=0.1)), "options say weight_decay, and so does the transformation of optax"),
    "architectures other than hybrid and allreduce": (
        lambda: trainer_of(model_of("rated"), options=Options(architecture="ps")).shard(data_of(4)),
        "architecture ps keeps .*take hybrid or allreduce"),
    "owners": (lambda: trainer_of(model_of("rated"), options=Options(shard_optimizer=True)),
               "shard_optimizer is True: a loop of one's own needs"),
}


@pytest.mark.parametrize("name", BEFORE)
def test_what_is_refused_before_the_first_step(name):
    make, said = BEFORE[name]
    with pytest.raises((CollectiveError, ValueError), match=said):
        make()


WORKS = {
    "parameter groups, no decay for biases": test_a_mask_has_the_tree_of_a_module,
    "a schedule": test_a_rate_that_the_user_changes,
    "gradient accumulation": test_microbatches_are_added_up,
    "early stopping, keeping the best": test_going_on_from_a_state_dict,
    "clipping by the norm of all, tables too": test_rows_move_as_in_a_training,
    "one of refimpl's optimizers": test_our_own_optimizers_give_the_bits_of_train,
}
"""Row of the page's table of loops -> its test; the others are refused."""


def test_the_page_has_a_row_for_each():
    text = PAGE.partition("| in your loop |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:]]
    refused = [name for name, told in rows if told.startswith("refused")]
    assert {name for name, _ in rows} - set(refused) == WORKS.keys()
    assert set(refused) <= BEFORE.keys() and len(refused) == 5


def test_a_mask_of_all_parameters_and_a_norm_of_one_are_no_mixing():
    for optimizer in (optax.adamw(0.1, mask=MASKED), optax.lamb(0.1), optax.adaptive_grad_clip(0.1),
                      optax.multi_transform({True: ADAM, False: SGD}, MASKED)):
        trainer_of(model_of("rated"), optimizer, rows=ADAM)


def test_tables_have_rates_of_their_own():
    rows = optax.multi_transform({True: optax.sgd(0.0), False: SGD}, MASKED)
    trainer = trainer_of(model_of("rated"), ADAM, rows=rows)
    loop(trainer, data_of(4), 2)
    learned, before = trainer.gather(), model_of("rated").parts.leaves
    assert np.array_equal(learned["items"], before["items"]) and not np.array_equal(learned["tags"], before["tags"])


def changed(trainer, batch):
    trainer = trainer_of(trainer.model, options=Options())
    _, gradient = trainer.value_and_grad(next(trainer.shard(data_of(4))))
    trainer.step(jax.tree.map(lambda leaf: 2 * leaf, gradient))


def needs_value(trainer, batch):
    trainer = trainer_of(trainer.model, OPTAX["reduce_on_plateau"][0])
    trainer.step(trainer.value_and_grad(next(trainer.shard(data_of(4))))[1])


def opened_with(**changes):
    """Return a function that sets such attributes of a trainer, each by a function of it, and does a step."""
    def do(trainer, batch):
        for name, function in changes.items():
            setattr(trainer, name, function(trainer))
        trainer.step(trainer.value_and_grad(batch)[1])

    return do


def cut(trainer, batch):
    state = trainer.state_dict()
    trainer.load_state_dict(state | {"values": {key: value[:1] for key, value in state["values"].items()}})


IN_THE_LOOP = [
    (lambda t, b: t.step(t.value_and_grad(b)), r"step takes the gradient .* a tree of its form .*: this is \(\(\), "),
    (lambda t, b: t.step(jax.tree.map(lambda leaf: leaf[None], t.value_and_grad(b)[1])), "of its form and shapes"),
    (opened_with(optimizer=lambda t: ADAM), "trainer.optimizer was replaced, .*: make another Trainer"),
    (opened_with(params=lambda t: jax.tree.map(jnp.zeros_like, t.params)), "trainer.params was changed outside of the"),
    (lambda t, b: t.load_state_dict(t.state_dict() | {"optimizers": ADAM.init(t.params)}), "to another transformation"),
    (cut, r"no state_dict of .*parameter/tags has shape \(1, 4\), and here \(40, 4\)"),
    (lambda t, b: t.step(None), r"step\(gradient\) has no gradient: call trainer.value_and_grad"),
    (changed, "the optimizer of options takes the gradient .* as it is"),
    (needs_value, r"takes more than a gradient: say trainer.step\(gradient, value=loss\)"),
    (lambda t, b: t.evaluate(data_of(2)), "the data have 2 microbatches, earlier data had 4: give all data the"),
    (lambda t, b: t.shard([1, 2]), "the data are list: give refimpl.Examples"),
]


@pytest.mark.parametrize("do, said", IN_THE_LOOP)
def test_what_is_refused_in_the_loop(do, said):
    trainer = trainer_of(model_of("rated", dense=True), SGD)
    with pytest.raises((CollectiveError, ValueError), match=said):
        do(trainer, next(trainer.shard(data_of(4))))
