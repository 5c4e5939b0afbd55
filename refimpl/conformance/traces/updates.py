"""One update from numbers that are given, in float64, and how far rounding may carry another implementation from it.

The bound of an element is of first order, and doubled: twice what the largest errors of the inputs change, and
16 eps (|p| + |p' - p|) for the update's own operations. Clipping adds the error of a norm summed in any order,
gamma_n / 2 (Higham 2002, section 4.2).
"""

from dataclasses import dataclass, field

import numpy as np

from refimpl.conformance.case import Rows, with_numbers
from refimpl.conformance.rules.aggregate import Wanted
from refimpl.conformance.rules.bounds import gamma
from refimpl.conformance.rules.gradients import clip_scales
from refimpl.conformance.rules.optimizers import apply_part

OPERATIONS = 16


@dataclass(frozen=True)
class Inputs:
    """What an update of all variables starts from, float64, and the largest error of each: name -> array.

    state: name -> slot -> array.  gradients: name -> array or Rows, errors in the same form.
    """

    parameters: dict
    state: dict
    gradients: dict
    parameter_errors: dict = field(default_factory=dict)
    state_errors: dict = field(default_factory=dict)
    gradient_errors: dict = field(default_factory=dict)


def updated(training, statistic, p, state, g, scale, step, everywhere=False):
    """Return (parameter, state) after one update of one variable. step: from 0. Local."""
    p, state = p.copy(), {slot: array.copy() for slot, array in state.items()}
    if statistic:
        return p + training["statistic_rate"] * (g - p), {}
    apply_part(training["optimizer"], p, state, with_numbers(g, lambda x: x * scale), everywhere, training["rate"],
               step + 1, training["options"])
    return p, state


def expected_update(training, statistics, inputs: Inputs, semantics, step, dtype) -> dict:
    """Return (name, slot or "value") -> Wanted after one update. Local."""
    scales = clip_scales(training["clip"], inputs.gradients, semantics, statistics)
    size = sum(g.rows.size if isinstance(g, Rows) else g.size for g in inputs.gradients.values())
    apart = gamma(size + 2, dtype) if min(scales.values()) < 1 else 0.0
    everywhere, result = semantics.updates_every_row(training["optimizer"]), {}
    for name, p in inputs.parameters.items():
        g, state = inputs.gradients[name], inputs.state[name]
        how = scales[name], step, everywhere
        values = updated(training, name in statistics, p, state, g, *how)
        moved = [updated(training, name in statistics, p, shifted_state, shifted, *how)
                 for shifted in _shifted(g, inputs.gradient_errors.get(name), apart)
                 for shifted_state in _shifted_states(state, inputs.state_errors.get(name))]
        before = {"value": p, **state}
        for part, value in {"value": values[0], **values[1]}.items():
            others = [m[0] if part == "value" else m[1][part] for m in moved]
            reach = np.max([np.abs(other - value) for other in others], axis=0)
            own = inputs.parameter_errors.get(name, 0.0) if part == "value" else 0.0
            size = np.abs(before[part]) + np.abs(value - before[part])
            tolerance = 2 * (reach + own) + OPERATIONS * np.finfo(dtype).eps * size
            result[name, part] = Wanted(value, tolerance, dtype)
    return result


def _shifted(g, error, relative):
    """Yield a gradient with its largest errors added and taken off."""
    for sign in (1.0, -1.0):
        values, errors = (x.rows if isinstance(x, Rows) else x for x in (g, error))
        errors = (0.0 if errors is None else errors) + relative * np.abs(values)
        yield Rows(g.ids, values + sign * errors) if isinstance(g, Rows) else values + sign * errors


def _shifted_states(state, errors):
    """Yield the state as it is, and with its largest errors added and taken off."""
    yield state
    for sign in (1.0, -1.0) if errors else ():
        yield {slot: array + sign * errors.get(slot, 0.0) for slot, array in state.items()}
