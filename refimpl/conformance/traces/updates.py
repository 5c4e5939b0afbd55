"""One update from numbers that are given, in float64, and how far rounding may carry another implementation from it.

The bound of an element is of first order, and doubled: twice what the largest errors of the inputs change, and
16 eps (|p| + |p' - p|) for the update's own operations. Clipping adds the error of a norm summed in any order,
gamma_n / 2 (Higham 2002, section 4.2).
"""

import numpy as np

from refimpl.conformance.bounds import Expected, gamma
from refimpl.conformance.case import numbers_of, with_numbers
from refimpl.plain.updating.updates import Updates

OPERATIONS = 16


def updated(sources, values, gradients, scales, step, semantics) -> dict:
    """Return (name, "value" or slot) -> array after update ``step``, from 0. scales: name -> clipping's. Local."""
    plain = Updates(semantics, 1)
    plain.values = {name: array.copy() for (name, part), array in values.items() if part == "value"}
    plain.state = {own: {part: array.copy() for (name, part), array in values.items()
                         if name == own and part != "value"} for own in plain.values}
    plain.clock = step
    for v in sources.variables:
        p, g = plain.values[v.name], with_numbers(gradients[v.name], lambda x, name=v.name: x * scales[name])
        if v.name in sources.statistics:
            p += sources.training["statistic_rate"] * (g - p)
        else:
            plain.apply_one(sources.task, v, g)
    return {(name, part): array for name, p in plain.values.items()
            for part, array in {"value": p, **plain.state[name]}.items()}


def clip_scales(sources, gradients, semantics) -> dict[str, float]:
    """Return name -> what clipping multiplies its gradient with; statistics neither count nor are clipped. Local."""
    counted = {name: g for name, g in gradients.items() if name not in sources.statistics}
    scales = {} if sources.task.clip is None else Updates(semantics, 1).scale(sources.task, counted, counted)
    return dict.fromkeys(gradients, 1.0) | scales


def expected_update(sources, before: dict, sums: dict, step) -> dict:
    """Return (name, "value" or slot) -> Expected after one update. Local.

    before: the same of what it begins from.  sums: name -> Expected of the gradients.
    """
    semantics, dtype = sources.semantics, sources.theirs.precision
    values, gradients = ({place: want.value for place, want in wants.items()} for wants in (before, sums))
    scales = clip_scales(sources, gradients, semantics)
    size = sum(numbers_of(g).size for g in gradients.values())
    apart = gamma(size + 2, dtype) if min(scales.values()) < 1 else 0.0

    def run(values, gradients):
        return updated(sources, values, gradients, scales, step, semantics)

    result, right = {}, run(values, gradients)
    moved = [run(values, gradients) for values in _shifted_states(before) for gradients in _shifted(sums, apart)]
    for place, value in right.items():
        own = before[place].tolerance if place[1] == "value" else 0.0
        reach = np.max([np.abs(other[place] - value) for other in moved], axis=0)
        size = np.abs(values[place]) + np.abs(value - values[place])
        result[place] = Expected(value, 2 * (reach + own) + OPERATIONS * np.finfo(dtype).eps * size, dtype)
    return result


def _shifted(sums, relative):
    """Yield the gradients with their largest errors added and taken off."""
    for sign in (1.0, -1.0):
        yield {name: with_numbers(want.value, lambda x: x + sign * (want.tolerance + relative * np.abs(x)))
               for name, want in sums.items()}


def _shifted_states(before):
    """Yield the values as they are, and with the largest errors of the optimizer's arrays added and taken off."""
    yield {place: want.value for place, want in before.items()}
    for sign in (1.0, -1.0) if any(want.tolerance.any() for want in before.values()) else ():
        yield {place: want.value if place[1] == "value" else want.value + sign * want.tolerance
               for place, want in before.items()}
