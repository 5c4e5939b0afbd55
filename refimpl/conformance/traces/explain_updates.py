"""Hypotheses about an update: each is simulated in float64, and must give all numbers that were handed in."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.case import Rows, double, with_numbers
from refimpl.conformance.diagnose import Diagnosis
from refimpl.conformance.diagnose.diagnosis import fits
from refimpl.conformance.semantics import CHOICES
from refimpl.conformance.traces.sources import Differing
from refimpl.conformance.traces.updates import Inputs, clip_scales, updated
from refimpl.conformance.words import names_in_words

RELATIVE = 1e-5
"""Of a number simulated: wrong gradients may be much larger than right ones, and so are their rounding errors."""


def explain_update(differing: Differing) -> Diagnosis | None:
    """Return the hypothesis that gives parameters and state after a step, and after most later ones; or None. Local."""
    sources, inputs, step = differing.sources, differing.inputs, differing.step
    parts = {s: differing.handed_in(s, "state", "parameters") for s in range(step, sources.steps)}
    possible = {s: {(code, words): predict for code, words, predict in _hypotheses(sources, inputs[s], s)}
                for s in parts}
    agreeing = {}
    for hypothesis in possible[step]:
        agrees = [s for s in parts if hypothesis in possible[s] and _agrees(parts[s], possible[s][hypothesis]())]
        if step in agrees:
            agreeing[hypothesis] = agrees
    if not agreeing:
        return _rate(sources, inputs[step], parts[step], step)
    code, words = max(agreeing, key=lambda hypothesis: len(agreeing[hypothesis]))
    steps = agreeing[code, words]
    return Diagnosis(code, words, f"simulated: all that was handed in of step{'s' if len(steps) > 1 else ''} "
                     f"{names_in_words(map(str, steps))} agrees")


def _agrees(parts, predicted) -> bool:
    return all(fits(found, want, predicted[place[3:]], _slack(want)) for place, (found, want) in parts.items())


def _slack(wanted) -> float:
    return RELATIVE if wanted.dtype == "float32" else 1e-12


def simulate(sources, inputs: Inputs, step, *, values=None, gradients=None, semantics=None, scales=None):
    """Return (variable, "value" or slot) -> array after an update with something changed. Local."""
    semantics, gradients = semantics or sources.semantics, gradients or inputs.gradients
    scales = scales or clip_scales(sources, gradients, semantics)
    return updated(sources, values or inputs.values, gradients, scales, step, semantics)


def _hypotheses(sources, now: Inputs, step):
    """Yield (code, words, function that gives the prediction)."""
    def run(**changes):
        return lambda: simulate(sources, now, step, **changes)

    before = now.values
    yield "not-updated", "nothing is updated", lambda: before
    yield ("state-stale", "the optimizer's state stays as it was before the step, though parameters are updated",
           lambda: {k: v if k[1] == "value" else before[k] for k, v in run()().items()})
    yield ("half-applied", "parameters are those of before the step, though the optimizer's state is updated",
           lambda: {k: before[k] if k[1] == "value" else v for k, v in run()().items()})
    start = {(n, part): array if part == "value" else sources.truth.get("start", None, n, part=part)
             for (n, part), array in before.items()}
    yield "state-lost", "the optimizer's state is lost: the update begins from its initial state", run(values=start)
    if sources.training["clip"] is not None:
        yield "not-clipped", "the gradient is not clipped", run(scales=dict.fromkeys(now.gradients, 1.0))
    for field, value in sources.semantics.alternatives("clip_norm", "untouched"):
        yield (f"{field}={value}", f'your numbers match "{field}": "{value}" ({CHOICES[field][value]}). Your manifest '
               f'says "{getattr(sources.semantics, field)}"',
               run(semantics=replace(sources.semantics, **{field: value})))
    yield from _other_gradients(sources, now, step, run)


def _other_gradients(sources, now, step, run):
    """Yield hypotheses of a wrong gradient, clipped by its own norm or by the right one's."""
    count = sources.microbatches
    right = clip_scales(sources, now.gradients, sources.semantics)
    clipped = ("", None), (", clipped by the right one's norm", right)
    for which, chosen in (("all", lambda g: True), ("row", lambda g: isinstance(g, Rows)),
                          ("dense", lambda g: not isinstance(g, Rows))):
        for factor, code, words in ((count, "multiplied-by-n", f"{count} x ours: not averaged, or multiplied"),
                                    (1 / count, "divided-again", f"1/{count} of ours: divided once more")):
            changed = {n: with_numbers(g, lambda x: x * factor) if chosen(g) else g for n, g in now.gradients.items()}
            yield code, f"{which} gradients that the update applies are {words}", run(gradients=changed)
    if step:
        ours = {v.name: sources.ours.get("aggregated", step - 1, v.name) for v in sources.variables}
        stale = {n: double(g) for n, g in (sources.aggregated(step - 1) or ours).items()}
        for how, scales in clipped:
            yield ("stale-gradient", f"the update applies the gradient of the step before{how}",
                   run(gradients=stale, scales=scales))
    parts = sources.local(step)
    if parts is not None:
        for m in sources.active(step):
            own = {n: double(g) for n, g in parts[m].items()}
            for how, scales in clipped:
                yield ("local", f"the update applies microbatch {m}'s own gradient{how}: nothing is reduced",
                       run(gradients=own, scales=scales))
        yield ("one-by-one", "the optimizer is applied to each microbatch's gradient in turn, not once to their sum",
               lambda: _one_by_one(sources, now, step, [parts[m] for m in sources.active(step)]))


def _one_by_one(sources, now, step, parts):
    values = now.values
    for part in parts:
        values = simulate(sources, now, step, values=values, gradients={n: double(g) for n, g in part.items()})
    return values


def _rate(sources, now, parts, step):
    """The step goes in the right direction, but is some factor longer: another learning rate."""
    right = simulate(sources, now, step)
    factors = []
    for place, (found, want) in parts.items():
        if place[4] != "value":
            if not fits(found, want, right[place[3:]], _slack(want)):
                return None
            continue
        before = now.values[place[3:]]
        move, moved = (np.ravel(x - before) for x in (right[place[3:]], np.asarray(found, np.float64)))
        if place[3] not in sources.statistics and move.any():
            factors.append(float(move @ moved / (move @ move)))
            if not fits(found, want, before + factors[-1] * (right[place[3:]] - before), _slack(want)):
                return None
    if not factors or max(factors) - min(factors) > 1e-3 * abs(factors[0]):
        return None
    return Diagnosis("rate", f"every parameter goes {factors[0]:.6g} times as far as it should: another learning rate",
                     f"step {step}; the optimizer's state is right")
