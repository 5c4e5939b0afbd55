"""Wrong trainings around the optimizer: start, windows, applied gradients, rates, counters, resuming."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.case import Rows
from refimpl.conformance.space.by_rule import miscounts, wrong_counts, wrong_lines, wrong_numbers
from refimpl.conformance.space.clipping import CLIPPING
from refimpl.conformance.space.deviation import Deviation, Impossible, joined, parametrised
from refimpl.conformance.space.manifest import has, if_task
from refimpl.plain.updating.updates import Updates


@parametrised
def _partly_reduced(reduced, want, machine, place):
    """Reduce only the micro-steps reduced(window); each rank adds its own gradients of the others."""
    window = machine.windows[place.step]
    together = reduced(window)
    own = [machine.part_of_window(place, [step]) for step in window if step not in together]
    return replace(want, value=joined([machine.of_window(place, together).value, *own])) if own else want


@parametrised
def _counted(there, change, parts, machine, place):
    """Miscount micro-steps. change(numbers) -> numbers, in windows that have the numbers ``there``."""
    if len(parts) == 1 or max(there) >= len(parts):
        raise Impossible
    return [parts[k] for k in change(range(len(parts)))]


WINDOWS = if_task("window", (
    *(("micro-step-miscounted", f"of a window {words}", "accumulated", _counted(there, change))
      for words, there, change in miscounts("micro-step", 2)),
    ("window-partly-reduced", "of a window the last micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[-1:])),
    ("window-partly-reduced", "of a window the first micro-step alone is reduced: to it each rank adds its own "
     "gradients of the others", "delivered", _partly_reduced(lambda window: window[:1])),
))


def _fresh(m, value):
    """Return the optimizer's arrays before the first update."""
    return m.plain.first_state(m.task, {"": value})[""]


@parametrised
def _with_fresh(slot, right, m, p):
    value, state = right
    if slot not in state:
        raise Impossible
    return value, {**state, slot: _fresh(m, value)[slot]}


RESUMING = if_task("resume_after", (
    ("state-lost", "the optimizer's state is lost on resuming", "restored variable",
     lambda right, m, p: (right[0], _fresh(m, right[0]))),
    ("state-lost", "the optimizer's first moment is lost on resuming", "restored variable", _with_fresh("first")),
    ("state-lost", "the optimizer's second moment is lost on resuming", "restored variable", _with_fresh("second")),
    ("parameters-lost", "training resumes from the initial parameters", "restored variable",
     lambda right, m, p: (m.start(0)[p.variable.name].astype(np.float64), right[1])),
    ("state-zeroed", "after resuming the optimizer's state is 0", "restored variable",
     lambda right, m, p: (right[0], {slot: np.zeros_like(a) for slot, a in right[1].items()})),
))


def _alone(right, machine, place):
    return [machine.clip(place.step, place.rank, machine.merged(place.step, place.rank))]


@parametrised
def _one_by_one(share, right, machine, place):
    each = [machine.merged(place.step, r, share(machine)) for r in machine.active(place.step)]
    return [machine.clip(place.step, place.rank, gradients) for gradients in each]


def _duplicates_apart(right, machine, place):
    """The k-th occurrence of each id by itself, dense gradients with the first."""
    divided = machine.apart(place.step)
    turn = {name: np.array([np.count_nonzero(g.ids[:i] == k) for i, k in enumerate(g.ids)])
            for name, g in divided.items() if isinstance(g, Rows)}
    result = []
    for k in range(max((int(t.max(initial=0)) for t in turn.values()), default=0) + 1):
        piece = {name: Rows(divided[name].ids[t == k], divided[name].rows[t == k]) for name, t in turn.items()}
        result.append(piece if k else {**piece, **{n: g for n, g in right[0].items() if n not in turn}})
    return result


def _without_remainder(right, machine, place):
    def kept(shape, g):
        end = (shape[0] if isinstance(g, Rows) else g.size) // machine.case.ranks * machine.case.ranks
        if isinstance(g, Rows):
            return Rows(g.ids[g.ids < end], g.rows[g.ids < end])
        return np.where(np.arange(g.size).reshape(g.shape) < end, g, 0)

    return [{n: kept(machine.case.variable(n).shape, g) for n, g in gradients.items()} for gradients in right]


def _mean_of_values(right, machine, place):
    found = [machine.after(place.step - 1, r)[0] for r in machine.group]
    return {n: sum(v[n] for v in found) / len(found) for n in right}


def _added_up(right, machine, place):
    """Gradients are not cleared: each update adds its own to the clipped ones of the update before."""
    last = machine.clipped(0, place.rank)
    for step in range(1, place.step + 1):
        own = machine.aggregated(step, place.rank)
        last = machine.clip(step, place.rank, {n: joined([last[n], own[n]]) for n in own})
    return [last]


def _update_before(right, machine, place):
    if place.step:
        return replace(right, value=machine.after(place.step - 1, place.rank)[0][place.variable.name])
    start = machine.start(0)[place.variable.name]
    return Expected(start.astype(np.float64), np.zeros(start.shape), str(start.dtype))


AROUND = tuple(Deviation(code, words, {decision: change}) for code, words, decision, change in (
    ("local", "each rank updates with its own gradient: nothing is reduced", "updates", _alone),
    ("one-by-one", "the optimizer is applied to each worker's gradient in turn, not once to their aggregate", "updates",
     _one_by_one(lambda machine: 1)),
    ("shares-one-by-one", "the optimizer is applied to each worker's share in turn, not once to their sum", "updates",
     _one_by_one(lambda machine: machine.case.ranks)),
    ("duplicates-apart", "rows that share an id are updated one after the other, not added first", "updates",
     _duplicates_apart),
    ("updated-twice", "every update is done twice", "updates", lambda right, m, p: [*right, *right]),
    ("not-updated", "nothing is updated", "updates", lambda right, m, p: []),
    ("remainder-not-updated", "elements and rows beyond a multiple of the number of ranks are never updated", "updates",
     _without_remainder),
    ("gradient-stale", "an update applies the gradient of the step before", "updates",
     lambda right, m, p: [m.clipped(p.step - 1, p.rank)] if p.step else []),
    ("not-cleared", "gradients add up from update to update: they are not cleared", "updates", _added_up),
    ("not-broadcast", "replicas start from different values: they are not broadcast", "start",
     lambda right, m, p: m.start(p.rank)[p.variable.name]),
    ("live-values", "values are views of the live parameters: each shows what the last update left", "visible",
     lambda right, m, p: replace(right, value=m.after(m.steps - 1, p.rank)[0][p.variable.name])),
    ("half-applied", "a value is read as it was one update earlier: a step was seen half applied", "visible",
     _update_before),
))
"""Mistakes in updates that come first, because a mistake in a sum may give the same numbers."""


NUMBERS = (("rate", "the learning rate", ()), ("loss scale", "the loss scale, by which gradients are divided,",
                                                ("loss_scale",)),
           ("micro-steps", "the number of micro-steps, by which a window is divided,", ("window",)),
           ("norm", "the norm that gradients are clipped by", ("clip",)),
           ("scale", "the factor by which gradients are clipped", ("clip",)))
"""(decision, its name, settings that a case needs to show it)."""


def deviations(ranks: int) -> list[Deviation]:
    """Return those that make sense on a number of ranks. Local."""
    found = [*WINDOWS, *CLIPPING, *RESUMING]
    for decision, words, setting in NUMBERS:
        found += wrong_numbers(decision, words, has(*setting))
    found += wrong_counts()
    found += [Deviation("rate-line", words, {"rate": lambda right, m, p, wrong=wrong: wrong(m.plain, m.task, p.step)})
              for words, wrong in wrong_lines(Updates, "rate")]
    found += [Deviation("clip-factor", words, {
        "scale": lambda right, m, p, wrong=wrong: wrong(m.plain, m.task.clip, m.norm)}, has("clip"))
        for words, wrong in wrong_lines(Updates, "clip_factor")]
    found += [Deviation("start-of-another", f"training starts from rank {r}'s values, not from rank 0's", {
        "start": lambda right, m, p, r=r: m.start(r)[p.variable.name]}) for r in range(1, ranks)]
    if ranks > 1:
        found.append(Deviation("parameter-reduced", "the parameters are averaged over the ranks, not the gradients",
                               {"updates": _alone, "before": _mean_of_values}))
    return found
