"""The expected arrays of each stage of a trace: (stage, step, microbatch, variable, part) -> Expected, in order.

given         exactly what we gave: the start, and stages that the training began with.
model stage   our float64 run, within 16 times the largest distance of our own float32 run from it in that variable
              (at least 16 eps of its largest number), eps being that of their precision. Measured, not proven: how far
              rounding in a backward pass may carry has no useful proven bound.
aggregated    the exact sum of the trace's local gradients, or of ours if it has none. The bound is proven; with
              ``order: tree`` the bits are compared.
state,        one update in float64 from the trace's numbers before it, or from the expected ones if it has none; see
parameters    ``updates``.
"""

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.case import Case, double, numbers_of, with_numbers
from refimpl.conformance.space.aggregation import Aggregation
from refimpl.conformance.traces.format import JOINS
from refimpl.conformance.traces.sources import Sources, merged
from refimpl.conformance.traces.updates import expected_update

MARGIN = 16
"""How much farther than our float32 run another run may be from the truth: it adds in another order."""


def expected(sources: Sources) -> tuple[dict[tuple, Expected], dict[int, dict]]:
    """Return (stage, step, microbatch, variable, part) -> Expected, and step -> the gradients of its update. Local.

    Stage "training" stands for parameters held against the whole training in float64.
    """
    result, gradients, last = _given(sources, "start", None), {}, {}
    for step in range(sources.steps):
        if sources.theirs.joined_at == "model":
            result |= _measured(sources, step, "carried") | _computed(sources, step)
            result |= _measured(sources, step, "metrics")
        for stage in JOINS[sources.theirs.joined_at]:
            result |= _given(sources, stage, step)
        sums = _aggregates(sources, step)
        result |= {("aggregated", step, None, name, "value"): want for name, want in sums.items()}
        if (given := sources.aggregated(step)) is not None:
            sums = {name: _exactly(sources, merged(part)) for name, part in given.items()}
        gradients[step] = {name: want.value for name, want in sums.items()}
        last = expected_update(sources, _before(sources, step, last), sums, step)
        result |= {("parameters" if part == "value" else "state", step, None, name, part): want
                   for (name, part), want in last.items()}
        if sources.theirs.joined_at == "model":
            result |= {("training", *place[1:]): want for place, want in _measured(sources, step, "parameters").items()}
    return result, gradients


def _exactly(sources, part) -> Expected:
    value = double(part)
    return Expected(value, np.zeros(np.shape(numbers_of(value))), sources.theirs.precision)


def _given(sources, stage, step) -> dict:
    """Expect exactly what we gave."""
    result = {}
    for place in sources.ours.arrays:
        if place[:2] == (stage, step) and place[4] != "rows":
            part = "value" if place[4] == "ids" else place[4]
            result[*place[:4], part] = _exactly(sources, sources.ours.get(*place[:2], place[3], place[2], part))
    return result


def _computed(sources, step):
    """Expect a microbatch's gradients, N times ours where the manifest averages."""
    sparse = {v.name for v in sources.variables if v.sparse}
    result = {}
    for place, want in _measured(sources, step, "local").items():
        rule = sources.semantics.sparse if place[3] in sparse else sources.semantics.dense
        factor = sources.microbatches if rule == "average" else 1
        result[place] = Expected(with_numbers(want.value, lambda x: x * factor), want.tolerance * factor, want.dtype)
    return result


def _measured(sources, step, stage) -> dict:
    """Expect the truth within the measured distance."""
    result = {}
    for place in sources.truth.arrays:
        if place[0] == stage and place[1] == step and place[4] in ("value", "ids"):
            value = sources.truth.get(*place[:2], place[3], place[2])
            tolerance = np.full(np.shape(numbers_of(value)), measured_distance(sources, stage, place[3]))
            result[*place[:4], "value"] = Expected(value, tolerance, sources.theirs.precision)
    return result


def measured_distance(sources, stage, name) -> float:
    """Return MARGIN times how far our float32 run is from the truth in a variable, for their precision. Local."""
    apart = largest = 0.0
    for place, value in sources.truth.arrays.items():
        if place[0] == stage and place[3] == name and place[4] in ("value", "rows"):
            apart = max(apart, float(np.abs(sources.single.arrays[place] - value).max(initial=0.0)))
            largest = max(largest, float(np.abs(value).max(initial=0.0)))
    single, own = (float(np.finfo(d).eps) for d in ("float32", sources.theirs.precision))
    return MARGIN * max(apart * own / single, own * largest)


def _aggregates(sources, step) -> dict[str, Expected]:
    """Return name -> Expected of the aggregated gradients; {} where they were given."""
    if sources.theirs.joined_at == "update":
        return {}
    parts = sources.local(step)
    if parts is not None:
        case = Case("", "rows", "", len(parts), sources.variables, (tuple(parts),), exact=False)
        return Aggregation(case, sources.semantics).expected()[0]
    return {place[3]: want for place, want in _measured(sources, step, "aggregated").items()}


def _before(sources, step, last) -> dict:
    """Return (name, "value" or slot) -> Expected before an update: theirs where they hand it in, else ``last``."""
    return {place: last[place] if (array := sources.before(step, *place)) is None else _exactly(sources, array)
            for place in sources.parts}
