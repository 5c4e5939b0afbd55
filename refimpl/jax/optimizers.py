"""A transformation of optax as options: what it does by row or by element is done by our optimizers.

optax keeps what a transformation does in closures. They are read here, and what was read is then held to the
transformation itself: both do three steps.
"""

import inspect

import jax
import numpy as np

from kernels.update import initial_state, update_dense
from kernels.update.rates import rate_of
from refimpl.training.options import Options
from refimpl.training.step.update import clip_scale

WORDS = ("known are sgd with momentum and nesterov, adam, adamw, add_decayed_weights, clip_by_global_norm, scale, and "
         "schedules of the learning rate")
REMEDY = f"take one of those, or Options(optimizer=...): {WORDS}"


def optax_options(optimizer, steps: int, model=None, *, by_row=False, **more) -> Options:
    """Return the options of a training with an ``optax.GradientTransformation``. Local.

    model: the one to be trained; with tables, a transformation that moves rows without gradient is refused.
    by_row: True lets it move only the rows that have a gradient, with one clock for all rows.
    more: other options.
    Raises ValueError, with a remedy, for a transformation whose parts are not known here or come in another order.
    """
    found = _options_of(_links(optimizer.update), steps)
    options = Options(steps=steps, **found, **more)
    _check_alike(optimizer, options)
    tables = [v.name for v in getattr(model, "variables", ()) if v.sparse]
    if tables and not by_row and (options.optimizer != "sgd" or options.weight_decay):
        raise ValueError(f"{', '.join(tables)} is a table, and {options.optimizer} moves all its rows in each step, "
                         "also those without gradient: say optax_options(..., by_row=True) to move only rows that have "
                         f"one, or make it a dense variable, dense=[{tables[0]!r}]")
    return options


def _links(update) -> list[tuple[str, dict]]:
    """Return (name, what it was made with) of each link of a chain, in order."""
    name, known = update.__qualname__.partition(".<locals>")[0], inspect.getclosurevars(update).nonlocals
    if "update_fns" in known:
        return [link for one in known["update_fns"] for link in _links(one)]
    if name == "with_extra_args_support":
        return _links(known["tx"].update)
    return [] if name == "identity" else [(name, known)]


UNKNOWN = {"trace": ("accumulator_dtype",), "scale_by_adam": ("eps_root", "mu_dtype", "nesterov")}
"""Links that keep a state by element, and their settings that are not known here."""
PLACES = {"clip_by_global_norm": 0, "add_decayed_weights": 1, "trace": 2, "scale_by_adam": 2, "scale": 3,
          "scale_by_schedule": 3}
"""The order in which links may come; only those of the last place may come several times."""


def _options_of(links, steps) -> dict:
    """Return fields of ``Options``. Raises ValueError for an unknown link, or one in another place."""
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
        else:
            rates.append(known["step_size"] if name == "scale" else _each(known["step_size_fn"], steps))
    return found | _rate(-np.prod(np.broadcast_arrays(*rates), 0) if rates else np.float64(-1), steps)


def _each(schedule, steps) -> np.ndarray:
    """Return a schedule's value in each step: (steps,) float64."""
    try:
        found = jax.vmap(schedule)(jax.numpy.arange(max(1, steps), dtype="int32"))
    except Exception:  # one that is not written in JAX
        found = [float(schedule(step)) for step in range(max(1, steps))]
    return np.broadcast_to(np.asarray(found, np.float64), (max(1, steps),))


def _rate(rates, steps) -> dict:
    """Return the learning rate, and each step's factor of it. rates: one, or one for each step."""
    base = float(np.max(rates))
    if not np.min(rates) >= 0 or not np.isfinite(base):
        raise ValueError(f"optax's chain has a learning rate of {-float(np.min(rates))}, with the sign that climbs: "
                         "end it by optax.scale_by_learning_rate(rate), or optax.scale(-rate)")
    if np.min(rates) == base:
        return {"learning_rate": base}
    return {"learning_rate": base, "rate": [float(rate) / base for rate in rates]}


def _check_alike(optimizer, options):
    """Raise ValueError unless three steps of a transformation are those of our optimizer, except for rounding."""
    random = np.random.default_rng(0)
    ours = random.standard_normal(5).astype(np.float32)
    theirs, state, kept = jax.numpy.asarray(ours), optimizer.init(ours), initial_state(options.optimizer, ours)
    for step in range(min(3, max(1, options.steps))):
        gradient = 3 * random.standard_normal(5).astype(np.float32)
        change, state = optimizer.update(jax.numpy.asarray(gradient), state, theirs)
        theirs = theirs + change
        rate = rate_of(step, base=options.learning_rate, rate=options.rate, warmup=0, steps=options.rate_steps)
        update_dense(options.optimizer, ours, kept, gradient, rate, step=step + 1, decay=options.weight_decay,
                     scale=clip_scale(float(np.linalg.norm(gradient)), options.clip_norm), **options.optimizer_options)
    if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-5):
        raise ValueError(f"this transformation of optax differs from {options.optimizer} with the same settings: it "
                         f"gives {np.asarray(theirs)} after three steps, in place of {ours}. {REMEDY}")
