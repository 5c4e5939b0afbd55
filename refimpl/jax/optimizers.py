"""A transformation of optax as options, if our optimizers can do what it does by row or by element.

optax keeps the settings of a transformation in closures. They are read here. Then our optimizer and the transformation
both do three steps, which must agree.
"""

import inspect
from dataclasses import replace
from operator import itemgetter

import jax
import numpy as np

from kernels.update import initial_state, update_dense
from kernels.update.rates import rate_of
from models import Variable
from refimpl.training.options import Options
from refimpl.training.step.update import clip_scale

WORDS = ("known are sgd with momentum and nesterov, adam, adamw, add_decayed_weights, clip_by_global_norm, scale, "
         "schedules of the learning rate, and masked, multi_transform and set_to_zero of those")
REMEDY = ("take one of those, or Options(optimizer=...), or a loop of your own, refimpl.jax.Trainer, where any "
          f"transformation moves dense variables: {WORDS}")
ALONE = [Variable("parameter", (5,))]
"""The variables with which a transformation is tried if there is no model."""


def optax_options(optimizer, steps: int, model=None, *, by_row=False, **more) -> Options:
    """Return ``Options`` with which ``train`` updates as an ``optax.GradientTransformation`` does. Local.

    model: the model to be trained. If the transformation has a mask or labels, its variables get learning rates and
    weight decays of their own. A transformation that changes rows of a table without a gradient is refused.
    by_row: True: do not refuse it, and change only the rows that have a gradient. All rows count the same steps.
    more: other fields of ``Options``.
    Raises ValueError, with a remedy, for a transformation that has no such options.
    """
    variables, tree = ALONE, itemgetter("parameter")
    if model is not None:
        variables, tree = [v for v in model.variables if not v.statistic], model.trained
    names = tree({v.name: v.name for v in variables})
    links = links_of(optimizer.update, tree({v.name: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in variables}), names)
    made = {_key(some): some for some in links.values()}
    made = {key: _options_of(some, lambda schedule: _each(schedule, steps)) for key, some in made.items()}
    found = {name: made[_key(some)] for name, some in links.items()}
    fields = _united(list(made.values()))
    options = Options(steps=steps, **fields, **more)
    own = {name: {field: one[field] for field in ("learning_rate", "weight_decay")} for name, one in found.items()}
    alike = all(one == {field: fields[field] for field in one} for one in own.values())
    variables = [replace(v, **(dict.fromkeys(own[v.name]) if alike else own[v.name])) for v in variables]
    _check_alike(optimizer, Options(steps=steps, **fields), variables, tree)
    tables = [v.name for v in variables if v.sparse]
    if tables and not by_row and (options.optimizer != "sgd" or any(
            found[name]["weight_decay"] for name in tables)):
        raise ValueError(f"{', '.join(tables)} is a table, and {options.optimizer} changes all its rows in each step, "
                         "also those without gradient: say optax_options(..., by_row=True) to change only rows that "
                         f"have one, or make it a dense variable, dense=[{tables[0]!r}]")
    if model is not None:
        model.variables = variables + [v for v in model.variables if v.statistic]
    return options


def links_of(update, params, names) -> dict[str, list[tuple[str, dict]]]:
    """Return variable -> (name, settings) of each link of a chain that it passes, in order. Local.

    params, names: trees of the variables' shapes, and of their names.
    """
    name, known = update.__qualname__.partition(".<locals>")[0], inspect.getclosurevars(update).nonlocals
    every = jax.tree.leaves(names)
    if name == "with_extra_args_support":
        return links_of(known["tx"].update, params, names)
    if "update_fns" in known:
        parts = [links_of(one, params, names) for one in known["update_fns"]]
        return {each: [link for part in parts for link in part[each]] for each in every}
    if name == "masked":
        chosen, inner = by_name(known["mask"], params, names), links_of(known["inner"].update, params, names)
        return {each: _of_a_group(inner[each]) if chosen[each] else [] for each in every}
    if name == "partition":
        labels = by_name(known["param_labels"], params, names)
        inner = {label: links_of(one.update, params, names) for label, one in known["transforms"].items()}
        return {each: _of_a_group(inner[labels[each]][each]) for each in every}
    return {each: [] if name == "identity" else [(name, known)] for each in every}


def by_name(given, params, names) -> dict:
    """Return variable -> its entry in a mask or labels: a tree, the beginning of one, or a function of params. Local.
    """
    if all(map(callable, jax.tree.leaves(given))):
        given = given(params)
    found: dict = {}
    jax.tree.map(lambda entry, below: found.update(dict.fromkeys(jax.tree.leaves(below), entry)), given, names)
    return found


def row_step(links, step: int) -> tuple[str, float, dict]:
    """Return (kernel, rate, its options) of step ``step``, from 0, of rows that pass these links. Local."""
    found = _options_of(links, lambda schedule: float(schedule(step)))
    return found["optimizer"], found["learning_rate"], {**found.get("optimizer_options", {}),
                                                        "decay": found["weight_decay"]}


def _key(links) -> tuple:
    return tuple(id(known) for _, known in links)


def _of_a_group(links):
    """Return links with another name for the one whose norm is then that of a group of variables."""
    return [(f"{name} within a mask", known) if name == "clip_by_global_norm" else (name, known)
            for name, known in links]


UNKNOWN = {"trace": ("accumulator_dtype",), "scale_by_adam": ("eps_root", "mu_dtype", "nesterov")}
"""Links that keep a state by element, and their settings that are not known here."""
PLACES = {"clip_by_global_norm": 0, "add_decayed_weights": 1, "trace": 2, "scale_by_adam": 2, "scale": 3,
          "scale_by_schedule": 3, "set_to_zero": 4}
"""The order in which links may come. Only those of the last two places may come several times."""


def _options_of(links, at) -> dict:
    """Return fields of ``Options``; ValueError for an unknown or misplaced link. at(schedule): its value or values."""
    found, rates, last, before = {"optimizer": "sgd", "weight_decay": 0.0}, [], -1, ""
    for name, known in links:
        if name == "add_decayed_weights" and before == "scale_by_adam" and not found["weight_decay"]:
            found |= {"optimizer": "adamw", "weight_decay": float(known["weight_decay"])}
            continue
        place, more = PLACES.get(name, -1), [key for key in UNKNOWN.get(name, ()) if known.get(key)]
        if place < last or place == last < 3 or place < 0 or more:
            where = f"with {', '.join(more)} is not known" if more else (
                "is not known" if place < 0 else f"cannot come after {before}")
            raise ValueError(f"optax's {name} {where} here, and its bits could depend on the number of ranks: {REMEDY}")
        last, before = place, name
        if name == "clip_by_global_norm":
            found["clip_norm"] = float(known["max_norm"])
        elif name == "add_decayed_weights":
            found["weight_decay"] = float(known["weight_decay"])
        elif name == "trace":
            found |= {"optimizer": "nesterov" if known["nesterov"] else "momentum",
                      "optimizer_options": {"mu": float(known["decay"])}}
        elif name == "scale_by_adam":
            found |= {"optimizer": "adam", "optimizer_options": {
                "beta1": float(known["b1"]), "beta2": float(known["b2"]), "epsilon": float(known["eps"])}}
        elif name == "set_to_zero":
            rates.append(-0.0)
        else:
            rates.append(known["step_size"] if name == "scale" else at(known["step_size_fn"]))
    return found | _rate(-np.prod(np.broadcast_arrays(*rates), 0) if rates else np.float64(-1))


def _united(found: list[dict]) -> dict:
    """Return the common options of all variables, and the first one's rate and decay. A variable of rate 0 fits all."""
    moving = [one for one in found if one["learning_rate"]] or found
    if any(one["optimizer"] == "adamw" for one in moving):
        for one in moving:
            if one["optimizer"] == "adam" and not one["weight_decay"]:
                one["optimizer"] = "adamw"
    for name in ("optimizer", "optimizer_options", "clip_norm", "rate"):
        for one in moving:
            ours, theirs = moving[0].get(name), one.get(name)
            if ours != theirs and not (ours and theirs and name == "rate" and np.allclose(ours, theirs, 1e-12, 0)):
                raise ValueError(f"optax's groups have {name}={ours!r:.60} and {theirs!r:.60}: groups may "
                                 f"differ only in learning rate and weight decay. {REMEDY}")
    return moving[0]


def _each(schedule, steps) -> np.ndarray:
    """Return a schedule's value in each step: (steps,) float64."""
    try:
        found = jax.vmap(schedule)(jax.numpy.arange(max(1, steps), dtype="int32"))
    except Exception:  # one that is not written in JAX
        found = [float(schedule(step)) for step in range(max(1, steps))]
    return np.broadcast_to(np.asarray(found, np.float64), (max(1, steps),))


def _rate(rates) -> dict:
    """Return the learning rate, and each step's factor of it. rates: one, or one for each step."""
    base = float(np.max(rates)) + 0.0
    if not np.min(rates) >= 0 or not np.isfinite(base):
        raise ValueError(f"optax's chain has a learning rate of {-float(np.min(rates))}, with which the loss would "
                         "grow: end it by optax.scale_by_learning_rate(rate), or optax.scale(-rate)")
    if np.min(rates) == base:
        return {"learning_rate": base}
    return {"learning_rate": base, "rate": [float(rate) / base for rate in rates]}


def _check_alike(optimizer, options, variables, tree):
    """Raise ValueError unless three steps of a transformation are those of our optimizer, except for rounding.

    They are done on small arrays with as many axes as the variables have.
    """
    random = np.random.default_rng(0)

    def drawn(v):
        return np.asarray(random.standard_normal(tuple(min(n, 3) for n in v.shape)), np.float32)

    ours = {v.name: drawn(v) for v in variables}
    kept = {name: initial_state(options.optimizer, value) for name, value in ours.items()}
    theirs = jax.tree.map(jax.numpy.array, tree(ours))
    state = optimizer.init(theirs)
    for step in range(min(3, max(1, options.steps))):
        gradients = {v.name: 3 * drawn(v) for v in variables}
        change, state = optimizer.update(jax.tree.map(jax.numpy.array, tree(gradients)), state, theirs)
        theirs = jax.tree.map(lambda value, by: value + by, theirs, change)
        norm = float(np.sqrt(sum(np.square(g.astype(np.float64)).sum() for g in gradients.values())))
        for v in variables:
            rate = rate_of(step, base=v.rate_in(options), rate=options.rate, warmup=0, steps=options.rate_steps)
            update_dense(options.optimizer, ours[v.name], kept[v.name], gradients[v.name], rate, step=step + 1,
                         decay=v.decay_in(options), scale=clip_scale(norm, options.clip_norm),
                         **options.optimizer_options)
    for value, found in zip(jax.tree.leaves(theirs), jax.tree.leaves(tree(ours))):
        if not np.allclose(value, found, rtol=1e-4, atol=1e-5):
            raise ValueError(f"this transformation of optax differs from {options.optimizer} with the same settings: "
                             f"it gives {np.asarray(value)} after three steps, in place of {found}. {REMEDY}")
