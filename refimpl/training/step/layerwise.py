"""Equals plain/updating/layerwise.py: LARS and LAMB, which move each variable in proportion to its norm over all ranks.

    lars   momentum with the gradient times  trust ‖w‖ / (‖g‖ + decay ‖w‖)
    lamb   adam's direction u, then sgd with u times  ‖w‖ / ‖u‖

Norms include only rows that have a gradient, of all ranks. Squares of rows are added exactly, as for clipping, so the
bits do not depend on which rank keeps which rows.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from kernels import array_module, take_rows
from kernels.exact_sum import DIGITS
from kernels.reductions import sum_of_squares_per_row
from kernels.update import OPTIMIZERS, update_dense
from models import Variable
from refimpl.gradients import ExactSum

PHASE = "norm"


class Step(NamedTuple):
    """An update of a variable's part on this rank, with its summed gradient: see ``kernels.update.update_rows``.

    ids: rows of the gradient; None: all values.  counts: whether this rank counts it in norms, as exactly one rank
    does.
    """

    variable: Variable
    values: Any
    state: dict[str, Any]
    ids: Any
    gradient: Any
    scale: float
    decay: float
    counts: bool


def elementwise(options, number: int, steps: list[Step], norms_of, variables) -> tuple[str, dict, list[Step]]:
    """Return (name of an elementwise optimizer, its options, steps) that together do the update of LARS or LAMB.

    number: of the update, from 0.  norms_of(names, steps): see the function of that name; collective if it is.
    variables: of the model. Those without weight decay (biases, factors of normalisation) get the ratio 1.
    """
    told = {**OPTIMIZERS[options.optimizer].options, **options.optimizer_options}
    adapted = [v.name for v in variables if v.decays and not v.statistic]
    if options.optimizer == "lars":
        norms = norms_of(adapted, steps)
        ratios = [_lars_ratio(norms.get(s.variable.name), s, told["trust"]) for s in steps]
        return "momentum", {"mu": told["mu"]}, [s._replace(scale=s.scale * ratio, decay=s.decay * ratio)
                                                for s, ratio in zip(steps, ratios)]
    directed = [s._replace(state={}, gradient=_direct(s, number + 1, told), decay=0.0) for s in steps]
    norms = norms_of(adapted, directed)
    return "sgd", {}, [s._replace(scale=_lamb_ratio(norms.get(s.variable.name))) for s in directed]


def norms_of(comm, names: list[str], steps: list[Step]) -> dict[str, tuple[float, float]]:
    """Return variable -> (norm of the values that have a gradient, norm of the gradient or direction). Collective.

    All ranks add up two exact sums for each variable: 8 · (2 · 67 · variables + 1) bytes.
    Raises CollectiveError for a norm that is not finite.
    """
    at, bad = {name: i for i, name in enumerate(names)}, 0
    digits = np.zeros((len(names), 2, DIGITS), np.int64)
    for step in (s for s in steps if s.counts and s.gradient.size and s.variable.name in at):
        for k, array in enumerate((_part(step.values, step.ids), step.gradient)):
            squares = sum_of_squares_per_row(array.reshape(len(array) if array.ndim else 1, -1))
            if array_module(squares).isfinite(squares).all():
                digits[at[step.variable.name], k] += ExactSum().add(squares).digits
            else:
                bad = 1
    total = comm.total(np.append(digits, bad), PHASE)
    if total[-1]:
        comm.agree(ValueError("the norm of a variable, or of its step, is not finite; lower the learning rate"))
    return {name: tuple(math.sqrt(ExactSum(row).value()) for row in rows)
            for name, rows in zip(names, total[:-1].reshape(digits.shape))}


def _lars_ratio(norms, step: Step, trust: float) -> float:
    if norms is None or 0 in norms:
        return 1.0
    weights, gradient = norms
    return trust * weights / (step.scale * gradient + step.decay * weights)


def _lamb_ratio(norms) -> float:
    return 1.0 if norms is None or 0 in norms else norms[0] / norms[1]


def _direct(step: Step, number: int, told: dict):
    """Update the moments of a variable, or of rows of it; return the direction of its step. Local.

    The direction is where adam with rate -1 goes from -0.0, to which any number is added exactly. Sgd with the values
    as gradient adds their decay.
    """
    values, parts = _part(step.values, step.ids), {slot: _part(array, step.ids) for slot, array in step.state.items()}
    xp = array_module(values)
    direction = xp.full_like(values, -0.0)
    update_dense("adam", direction, parts, step.gradient, -1.0, step=number, scale=step.scale, **told)
    if step.decay:
        update_dense("sgd", direction, {}, values, -1.0, step=number, scale=step.decay)
    if step.ids is not None:
        ids = xp.asarray(step.ids)
        for slot, part in parts.items():
            step.state[slot][ids] = part
    return direction


def _part(array, ids):
    return array if ids is None else take_rows(array, ids)
