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
from refimpl.plain.updates import Updates

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


def updated(sources, values, gradients, scales, step, semantics) -> dict:
    """Return (name, "value" or slot) -> array after update ``step``, from 0. scales: name -> clipping's. Local."""
    plain, result = Updates(semantics, 1), {}
    plain.values = {name: array.copy() for (name, part), array in values.items() if part == "value"}
    plain.state = {name: {} for name in plain.values}
    for (name, part), array in values.items():
        if part != "value":
            plain.state[name][part] = array.copy()
    plain.clock = step
    for v in sources.variables:
        p, g = plain.values[v.name], with_numbers(gradients[v.name], lambda x, name=v.name: x * scales[name])
        if v.name in sources.statistics:
            p += sources.training["statistic_rate"] * (g - p)
        else:
            plain.apply_one(sources.task, v, g)
        result |= {(v.name, part): array for part, array in {"value": p, **plain.state[v.name]}.items()}
    return result


def clip_scales(sources, gradients, semantics) -> dict[str, float]:
    """Return name -> what clipping multiplies its gradient with; statistics neither count nor are clipped. Local."""
    counted = {name: g for name, g in gradients.items() if name not in sources.statistics}
    scales = {} if sources.task.clip is None else Updates(semantics, 1).scale(sources.task, counted, counted)
    return dict.fromkeys(gradients, 1.0) | scales


def expected_update(sources, inputs: Inputs, step) -> dict:
    """Return (name, "value" or slot) -> Expected after one update. Local."""
    semantics, dtype = sources.semantics, sources.theirs.precision
    scales = clip_scales(sources, inputs.gradients, semantics)
    size = sum(numbers_of(g).size for g in inputs.gradients.values())
    apart = gamma(size + 2, dtype) if min(scales.values()) < 1 else 0.0

    def run(values, gradients):
        return updated(sources, values, gradients, scales, step, semantics)

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
