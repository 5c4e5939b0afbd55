"""Wrong clipping: of which gradients the norm is, which gradients it clips, and when."""

from dataclasses import replace
from functools import reduce

import numpy as np

from refimpl.conformance.case import Rows, with_numbers
from refimpl.conformance.space.deviation import joined, parametrised
from refimpl.conformance.space.manifest import if_task
from refimpl.plain.adding.sums import norm_of


def _all_numbers(machine):
    """Return all numbers of the norm, as one array."""
    parts = machine.clipping.values()
    return np.concatenate([np.ravel(g.rows if isinstance(g, Rows) else g) for g in parts])


def _each(change):
    """Change each variable's gradient as it was before clipping: change(gradient, largest norm)."""
    return lambda right, m, p: {n: change(g, m.task.clip) for n, g in m.aggregated(p.step, p.rank).items()}


def _by_row(gradient, clip):
    def rows(x):
        norms = np.sqrt((x.reshape(len(x), -1) ** 2).sum(axis=1)).reshape(-1, *[1] * (x.ndim - 1))
        return x * np.minimum(1.0, clip / np.maximum(norms, 1e-300))

    return with_numbers(gradient, rows)


def _of_shard(machine, rank) -> float:
    """The norm of the rows r with r mod N = rank, and of the rank's block of each dense gradient."""
    size = machine.case.ranks
    return norm_of({name: Rows(*(part[g.ids % size == rank] for part in g)) if isinstance(g, Rows)
                    else np.array_split(np.ravel(g), size)[rank] for name, g in machine.clipping.items()},
                   machine.semantics)


def _of_ranks(machine, place) -> list[float]:
    """The norm of each rank's own gradient."""
    return [norm_of(machine.merged(place.step, r), machine.semantics) for r in machine.group]


def _weighted(machine, dense=1, rows=1) -> float:
    """The norm, if some gradients are counted several times."""
    return np.sqrt(sum((rows if isinstance(g, Rows) else dense) * norm_of({"": g}, machine.semantics) ** 2
                       for g in machine.clipping.values()))


@parametrised
def _micro(change, right, machine, place):
    """Change a window's clipped gradient: change(machine, place, the aggregate of each micro-step)."""
    window = machine.windows[place.step]
    if len(window) == 1:
        return right
    return change(machine, place, [{v.name: machine.of_window(replace(place, variable=v), [step]).value
                                    for v in machine.case.variables} for step in window])


def _joined_all(parts) -> dict:
    """Return name -> the sum of some gradients."""
    return {name: joined([part[name] for part in parts]) for name in parts[0]}


def _stale(right, machine, place):
    if place.step == 0:
        return right
    before, own = (machine.aggregated(step, place.rank) for step in (place.step - 1, place.step))
    return machine.clip(place.step, place.rank, before, own)


CLIPPING = if_task("clip", (
    ("not-clipped", "gradients are not clipped", "scale", lambda right, m, p: 1.0),
    ("local-norm", "gradients are clipped by the rank's own norm, not by the global one", "norm",
     lambda right, m, p: norm_of(m.merged(p.step, p.rank), m.semantics)),
    ("norm-of-sizes", "the norm is the sum of absolute values", "norm",
     lambda right, m, p: np.abs(_all_numbers(m)).sum()),
    ("norm-of-largest", "the norm is the largest absolute value", "norm",
     lambda right, m, p: np.abs(_all_numbers(m)).max()),
    ("norm-averaged", "the norm's squares are averaged over the elements, not added", "norm",
     lambda right, m, p: right / np.sqrt(_all_numbers(m).size)),
    ("norm-over-ranks", "the norm's squares are added over N ranks that all have the same: N times its square", "norm",
     lambda right, m, p: right * np.sqrt(m.case.ranks)),
    ("norm-scaled", "the norm is of gradients that still have the loss scale", "norm",
     lambda right, m, p: right * m.task.loss_scale, "loss_scale"),
    ("norm-of-variable", "each variable is clipped by its own norm", "norm",
     lambda right, m, p: norm_of({"": m.clipping[p.variable.name]}, replace(m.semantics, clip_norm="all"))),
    ("norms-added", "the variables' norms are added, not their squares", "norm",
     lambda right, m, p: sum(norm_of({n: g}, m.semantics) for n, g in m.clipping.items())),
    ("scaled-to-one", "gradients that are too large are scaled to norm 1", "scale",
     lambda right, m, p: right if right == 1.0 else right / m.task.clip),
    ("clipped-by-value", "each element is clipped, not the norm", "clipped",
     _each(lambda g, clip: with_numbers(g, lambda x: np.clip(x, -clip, clip)))),
    ("clipped-by-row", "each row is clipped by its own norm", "clipped", _each(_by_row)),
    ("gradient-stale", "an update applies the gradient of the step before, clipped by the norm of its own", "clipped",
     _stale),
    ("norm-of-shard", "each rank clips by the norm of its own shard", "norm",
     lambda right, m, p: _of_shard(m, p.rank)),
    ("norm-of-shards", "the shards' norms are added, not their squares", "norm",
     lambda right, m, p: sum(_of_shard(m, r) for r in m.group)),
    ("norm-of-ranks", "the norms of the ranks' own gradients are averaged: the global one is wanted", "norm",
     lambda right, m, p: np.mean(_of_ranks(m, p))),
    ("norm-of-ranks", "the largest norm of the ranks' own gradients is taken for the global one", "norm",
     lambda right, m, p: max(_of_ranks(m, p))),
    ("norm-of-ranks", "the squares of the ranks' own gradients are added, not those of their aggregate", "norm",
     lambda right, m, p: np.sqrt(sum(norm**2 for norm in _of_ranks(m, p)))),
    ("norm-dense-n-times", "the norm counts dense gradients N times, once for every rank that has them, and rows once",
     "norm", lambda right, m, p: _weighted(m, dense=m.case.ranks)),
    ("norm-rows-n-times", "the norm counts rows N times, and dense gradients once", "norm",
     lambda right, m, p: _weighted(m, rows=m.case.ranks)),
    ("clipped-each-micro-step", "each micro-step's gradient is clipped by itself, then those of a window are added",
     "clipped", _micro(lambda m, p, parts: _joined_all([m.clip(p.step, p.rank, part) for part in parts])), "clip",
     "window"),
    ("clipped-each-micro-step", "what a window has added up so far is clipped at each micro-step", "clipped",
     _micro(lambda m, p, parts: reduce(lambda so_far, part: m.clip(p.step, p.rank, _joined_all([so_far, part])),
                                       parts, {n: with_numbers(g, np.zeros_like) for n, g in parts[0].items()})),
     "clip", "window"),
))
