"""One update from numbers that are given, in float64, and how far rounding may carry another implementation from it.

The bound of an element is of first order, and doubled: twice what the largest errors of the inputs change, and
16 eps (|p| + |p' - p|) for the update's own operations. Clipping adds the error of a norm summed in any order,
gamma_n / 2 (Higham 2002, section 4.2).
"""

from dataclasses import dataclass, field

import numpy as np

from refimpl.conformance.case import numbers_of, with_numbers
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.rules.bounds import gamma
from refimpl.conformance.rules.gradients import clip_scales, placed
from refimpl.plain.optimizers import OPTIMIZERS

OPERATIONS = 16


@dataclass(frozen=True)
class Inputs:
    """What an update of all variables starts from, float64, and the largest error of each (missing: 0).

    values: (name, "value" or slot) -> array.  gradients: name -> array or Rows.  errors, gradient_errors: key -> array.
    """

    values: dict
    gradients: dict
    errors: dict = field(default_factory=dict)
    gradient_errors: dict = field(default_factory=dict)


def updated(training, statistics, values, gradients, scales, step, everywhere) -> dict:
    """Return (name, "value" or slot) -> array after update ``step``, from 0. everywhere: see ``placed``. Local."""
    result, optimizer = {}, OPTIMIZERS[training["optimizer"]](**training["options"])
    for name, g in gradients.items():
        p = values[name, "value"].copy()
        if name in statistics:
            result[name, "value"] = p + training["statistic_rate"] * (g - p)
            continue
        state = {part: array.copy() for (owner, part), array in values.items() if owner == name and part != "value"}
        at, g = placed(with_numbers(g, lambda x: x * scales[name]), p, everywhere)
        optimizer.apply(p, state, at, g, training["rate"], step + 1)
        result |= {(name, part): array for part, array in {"value": p, **state}.items()}
    return result


def expected_update(training, statistics, inputs: Inputs, semantics, step, dtype) -> dict:
    """Return (name, "value" or slot) -> Expected after one update. Local."""
    scales = clip_scales(training["clip"], inputs.gradients, semantics, statistics)
    size = sum(numbers_of(g).size for g in inputs.gradients.values())
    apart = gamma(size + 2, dtype) if min(scales.values()) < 1 else 0.0

    def run(values, gradients):
        return updated(training, statistics, values, gradients, scales, step,
                       semantics.updates_every_row(training["optimizer"]))

    result, right = {}, run(inputs.values, inputs.gradients)
    moved = [run(values, gradients) for values in _shifted_states(inputs) for gradients in _shifted(inputs, apart)]
    for place, value in right.items():
        before, own = inputs.values[place], inputs.errors.get(place, 0.0) if place[1] == "value" else 0.0
        reach = np.max([np.abs(other[place] - value) for other in moved], axis=0)
        size = np.abs(before) + np.abs(value - before)
        result[place] = Expected(value, 2 * (reach + own) + OPERATIONS * np.finfo(dtype).eps * size, dtype)
    return result


def _shifted(inputs, relative):
    """Yield the gradients with their largest errors added and taken off."""
    errors = inputs.gradient_errors
    for sign in (1.0, -1.0):
        yield {name: with_numbers(g, lambda x: x + sign * (errors.get(name, 0.0) + relative * np.abs(x)))
               for name, g in inputs.gradients.items()}


def _shifted_states(inputs):
    """Yield the values as they are, and with the largest errors of the optimizer's arrays added and taken off."""
    yield inputs.values
    for sign in (1.0, -1.0) if inputs.errors else ():
        yield {place: array if place[1] == "value" else array + sign * inputs.errors.get(place, 0.0)
               for place, array in inputs.values.items()}
