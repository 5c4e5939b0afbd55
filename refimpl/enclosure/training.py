"""A training on enclosures: after each step, where parameters and optimizer state of any correct device must lie.

The model runs as it is, on enclosures (docs/design.md, I6); gradients of microbatches are added as one sum of V
terms, so that no order of it is left out; clipping and updates are the optimizers' definitions.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from kernels import RowGradient
from kernels.random import key_of
from kernels.update import OPTIMIZERS
from kernels.update.definition import update_rows
from kernels.update.rates import rate_of
from refimpl.enclosure import namespace as xp
from refimpl.enclosure.elementwise import between, grown
from refimpl.enclosure.enclosure import Enclosure
from refimpl.enclosure.sums import of_terms
from refimpl.training.run.manifest import read_manifest
from refimpl.training.run.whole import key_of_array


@dataclass
class State:
    """Where a training may be: number of steps done, and enclosures of its arrays.

    arrays: key (see ``whole.key_of_array``) -> Enclosure.  carried: microbatch -> what its batches hand on.
    """

    step: int
    arrays: dict[str, Enclosure]
    carried: dict[int, dict]


def initial_state(model, options) -> State:
    """Return where every training with these options begins: single points. Local."""
    arrays = {}
    for variable in model.variables:
        arrays[key_of_array(variable.name, None)] = Enclosure.exact(variable.initial_value(options.seed))
        for slot, value in ({} if variable.statistic else OPTIMIZERS[options.optimizer].state).items():
            arrays[key_of_array(variable.name, slot)] = Enclosure.exact(np.full(variable.shape, value, variable.dtype))
    return State(0, arrays, {})


def state_at(step: int, arrays, carried) -> State:
    """Return the single points that a training has reached: NumPy arrays by key and by microbatch and name. Local."""
    return State(step, {key: Enclosure.exact(a) for key, a in arrays.items()},
                 {v: {name: Enclosure.exact(a) for name, a in some.items()} for v, some in carried.items()})


def read_state(directory) -> State:
    """Return the single points of the newest checkpoint in a run directory. Local.

    Raises ValueError or OSError as ``refimpl.training.run.manifest.read_manifest`` does.
    """
    manifest = read_manifest(directory)
    found, arrays, carried = load_file(Path(directory) / manifest.arrays), {}, {}
    for key, array in found.items():
        if key.startswith("carry/"):
            _, v, name = key.split("/", 2)
            carried.setdefault(int(v), {})[name] = array
        else:
            arrays[key] = array
    return state_at(manifest.step, arrays, carried)


def enclosed_steps(model, data, options, steps: int):
    """Yield (state, loss) of each step from the beginning, see ``enclosed_step``. Local."""
    state = initial_state(model, options)
    for _ in range(steps):
        state, loss = enclosed_step(model, data, options, state)
        yield state, loss


def enclosed_step(model, data, options, before: State) -> tuple[State, Enclosure]:
    """Return where a training may be one step later, and the enclosure of that step's loss. Local.

    Raises ValueError where a ball has no end: from there on nothing is proved.
    """
    arrays = {key: enclosure.copy() for key, enclosure in before.arrays.items()}
    carried = {} if data.starts_epoch(before.step) else before.carried
    after = State(before.step + 1, arrays, {v: dict(carried.get(v, {})) for v in range(data.microbatches)})
    parts = [part for part in (_microbatch(model, data, options, after, v) for v in range(data.microbatches)) if part]
    summed = {variable.name: _summed(variable, [gradients[variable.name] for _, gradients in parts])
              for variable in model.variables}
    _update(model, data, options, after, summed, _clip_scale(model, options, summed))
    loss = xp.sum(xp.concatenate([xp.asarray(loss, np.float64).reshape(1) for loss, _ in parts]))
    for key, enclosure in [*arrays.items(), ("loss", loss)]:
        if not np.isfinite(enclosure.radius).all():
            raise ValueError(f"step {after.step}: {key!r} may have any value: take fewer steps")
    return after, loss


def _microbatch(model, data, options, state, v):
    """Return (loss, gradients) of a microbatch at the state's parameters; None for one without examples."""
    step = state.step - 1
    batch = data.microbatch(step, v)
    if batch is None:
        return None
    batch = replace(batch, key=key_of(options.seed, "microbatch", step, v), state=state.carried[v])
    needed = model.rows_needed(batch)
    dense = {variable.name: state.arrays[key_of_array(variable.name, None)] for variable in model.variables
             if not variable.sparse}
    rows = {name: state.arrays[key_of_array(name, None)][ids] for name, ids in needed.items()}
    return model.loss_and_gradients(dense, rows, batch)


def _summed(variable, gradients):
    """Return the sum of the microbatches' gradients, in any order."""
    if variable.sparse:
        ids, place = np.unique(np.concatenate([g.ids for g in gradients]), return_inverse=True)
        total = xp.zeros((len(ids), variable.shape[1]), variable.dtype)
        xp.add.at(total, place, xp.concatenate([g.rows for g in gradients]))
        return RowGradient(ids, total)
    stacked = xp.concatenate([xp.asarray(g)[None] for g in gradients])
    return xp.sum(stacked, axis=0, dtype=variable.dtype)


def norm_of(gradients) -> Enclosure:
    """Return the Euclidean norm of all: by the triangle inequality no farther from the midpoints' than the radii's."""
    middle, radius = (math.sqrt(sum(float(np.square(getattr(g, part)).sum()) for g in gradients))
                      for part in ("middle", "radius"))
    error = of_terms(middle, sum(g.size for g in gradients) + 2, np.float64)  # float64 on every device, and here
    return grown(middle, radius, error + of_terms(radius, 2, np.float64), np.float64)


def _clip_scale(model, options, summed) -> Enclosure:
    """Return min(1, largest / norm), see ``refimpl.training.step.update.clip_scale``."""
    one = Enclosure.exact(np.float64(1))
    if options.clip_norm is None:
        return one
    norm = norm_of([getattr(summed[v.name], "rows", summed[v.name]) for v in model.variables
                    if v.clipped and not v.statistic])
    scale = xp.divide(np.float64(options.clip_norm), norm)
    return between(np.minimum(scale.lowest, 1.0), np.minimum(scale.highest, 1.0), np.float64)


def _update(model, data, options, state, summed, scale):
    """Apply the optimizer's definition, see ``Trainer``."""
    optimizer = OPTIMIZERS[options.optimizer]
    settings = {**optimizer.options, **options.optimizer_options}
    settings |= {"step": state.step} if optimizer.clock else {}
    for variable in model.variables:
        gradient, values = summed[variable.name], state.arrays[key_of_array(variable.name, None)]
        if variable.statistic:
            values += np.dtype(variable.dtype).type(variable.rate_in(options)) * (gradient - values)
            continue
        rate = rate_of(state.step - 1, base=variable.rate_in(options), rate=options.rate, warmup=options.warmup,
                       steps=options.rate_steps)
        slots = [state.arrays[key_of_array(variable.name, slot)] for slot in optimizer.state]
        factor = scale if variable.clipped else Enclosure.exact(np.float64(1))
        if variable.sparse and not options.average_sparse:
            factor = factor * np.float64(data.microbatches)
        factor = factor.astype(variable.dtype)
        if variable.sparse:
            update_rows(optimizer.define, values, slots, gradient.ids, gradient.rows * factor, rate,
                        decay=variable.decay_in(options), **settings)
        else:
            optimizer.define(values, *slots, gradient * factor, rate, decay=variable.decay_in(options), **settings)
