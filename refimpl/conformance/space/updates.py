"""Deviations of a training around its optimizer: start, windows, clipping, rates, counters, resuming, what is read."""

from dataclasses import replace
from functools import cache

import numpy as np

from refimpl.conformance.case import Rows, with_numbers
from refimpl.conformance.cases.training import start_of
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.rules.gradients import merge_occurrences, merged, norm_of
from refimpl.conformance.space.deviation import Deviation, Impossible, concerning
from refimpl.conformance.space.manifest import has


def _if_task(setting, change):
    """The change, in cases whose task has a setting other than its default."""
    def changed(right, machine, place):
        if not concerns(machine.case):
            raise Impossible
        return change(right, machine, place)

    concerns = has(setting)
    return concerning(changed, concerns)


def _alone(right, machine, place):
    return [machine.clip(place.step, place.rank, merged(machine.local(place.step, place.rank)))]


def _one_by_one(share):
    def changed(right, machine, place):
        if machine.case.ranks == 1:
            raise Impossible
        each = [merged(machine.local(place.step, r), share(machine)) for r in machine.group]
        return [machine.clip(place.step, place.rank, gradients) for gradients in each]

    return changed


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


def _of_all_values(divided: bool):
    def changed(right, machine, place):
        found = [values for values, _ in machine.after(place.step - 1)]
        return {n: sum(v[n] for v in found) / (len(found) if divided else 1) for n in right}

    return changed


def _first_again(right, machine, place):
    return right if place.step == 0 else [machine.clipped(0, place.rank)]


def _step_before(right, machine, place):
    return [] if place.step == 0 else [machine.clipped(place.step - 1, place.rank)]


def _added_up(right, machine, place):
    """Gradients are not cleared: each update's are added to the last one's, as they were clipped."""
    last = machine.clipped(0, place.rank)
    for step in range(1, place.step + 1):
        own = machine.aggregated(step, place.rank)
        last = machine.clip(step, place.rank, {n: _joined([last[n], own[n]]) for n in own})
    return [last]


def _joined(parts):
    if not isinstance(parts[0], Rows):
        return sum(parts)
    return merge_occurrences(Rows(np.concatenate([p.ids for p in parts]), np.concatenate([p.rows for p in parts])))


def _other_start(right, machine, place):
    if not machine.case.settings["starts"]:
        raise Impossible
    return start_of(machine.case, place.rank)[place.variable.name]


def _update_before(right, machine, place):
    if place.step:
        rank = place.rank if len(machine.simulated) > 1 else 0
        return replace(right, value=machine.after(place.step - 1)[rank][0][place.variable.name])
    start = start_of(machine.case, 0)[place.variable.name]
    return Expected(start.astype(np.float64), np.zeros(start.shape), str(start.dtype))


AROUND = (
    ("local", "each rank updates with its own gradient: nothing is reduced", "updates", _alone),
    ("one-by-one", "the optimizer is applied to each worker's gradient in turn, not once to their aggregate", "updates",
     _one_by_one(lambda machine: 1)),
    ("shares-one-by-one", "the optimizer is applied to each worker's share in turn, not once to their sum", "updates",
     _one_by_one(lambda machine: machine.case.ranks)),
    ("duplicates-apart", "rows that share an id are updated one after the other, not added first", "updates",
     _duplicates_apart),
    ("updated-twice", "every update is done twice", "updates", lambda right, m, p: [*right, *right]),
    ("not-updated", "nothing is updated", "updates", lambda right, m, p: []),
    ("first-gradient-kept", "every update applies the first step's gradient", "updates", _first_again),
    ("gradient-stale", "an update applies the gradient of the step before", "updates", _step_before),
    ("not-cleared", "gradients add up from update to update: they are not cleared", "updates", _added_up),
    ("not-broadcast", "replicas start from different values: they are not broadcast", "start", _other_start),
    ("half-applied", "a value is read as it was one update earlier: a step was seen half applied", "visible",
     _update_before),
)
"""(code, words, decision, change)."""


def _parts(kept):
    return _if_task("window", lambda parts, machine, place: kept(parts))


WINDOWS = (
    ("window-last", "of a window the last micro-step alone counts", "accumulated", _parts(lambda p: p[-1:])),
    ("window-first", "of a window the first micro-step alone counts", "accumulated", _parts(lambda p: p[:1])),
    ("window-twice", "of a window the first micro-step counts twice", "accumulated", _parts(lambda p: [p[0], *p])),
    ("micro-clock", "accumulation advances the optimizer's step or rate with every micro-step, not with every update",
     "ticks", _if_task("window", lambda right, m, p: len(m.windows[p.step]))),
    ("loss-scale-kept", "the loss scale is not removed before the update", "loss scale",
     _if_task("loss_scale", lambda right, m, p: 1.0)),
    ("loss-scale-twice", "the loss scale is removed twice", "loss scale",
     _if_task("loss_scale", lambda right, m, p: right * right)),
)


def _norm(change):
    return _if_task("clip", change)


def _of_local(right, machine, place):
    return norm_of(merged(machine.local(place.step, place.rank)), machine.semantics)


def _all_numbers(machine):
    """Return all numbers that the norm is of, as one array."""
    parts = machine.clipping.values()
    return np.concatenate([np.ravel(g.rows if isinstance(g, Rows) else g) for g in parts])


def _clipped(change):
    """Change the clipped gradients: change(machine, place, name -> gradient before clipping)."""
    def changed(right, machine, place):
        return change(machine, place, machine.aggregated(place.step, place.rank))

    return changed


def _by_row(gradient, clip):
    def rows(x):
        norms = np.sqrt((x.reshape(len(x), -1) ** 2).sum(axis=1)).reshape(-1, *[1] * (x.ndim - 1))
        return x * np.minimum(1.0, clip / np.maximum(norms, 1e-300))

    return with_numbers(gradient, rows)


CLIPPING = (
    ("local-norm", "gradients are clipped by the rank's own norm, not by the global one", "norm", _norm(_of_local)),
    ("norm-squared", "no root is taken of the norm's squares", "norm", _norm(lambda right, m, p: right * right)),
    ("norm-rooted", "the root of the norm is taken once more", "norm", _norm(lambda right, m, p: np.sqrt(right))),
    ("norm-of-sizes", "the norm is the sum of absolute values", "norm",
     _norm(lambda right, m, p: np.abs(_all_numbers(m)).sum())),
    ("norm-of-largest", "the norm is the largest absolute value", "norm",
     _norm(lambda right, m, p: np.abs(_all_numbers(m)).max())),
    ("norm-averaged", "the norm's squares are averaged over the elements, not added", "norm",
     _norm(lambda right, m, p: right / np.sqrt(_all_numbers(m).size))),
    ("norm-of-sum", "the norm is N times too large: of the sum, not of the average", "norm",
     _norm(lambda right, m, p: right * m.case.ranks)),
    ("norm-of-share", "the norm is N times too small", "norm", _norm(lambda right, m, p: right / m.case.ranks)),
    ("norm-over-ranks", "the norm's squares are added over N ranks that all have the same: N times its square", "norm",
     _norm(lambda right, m, p: right * np.sqrt(m.case.ranks))),
    ("norm-scaled", "the norm is of gradients that still have the loss scale", "norm",
     _if_task("loss_scale", lambda right, m, p: right * m.task["loss_scale"])),
    ("norm-of-variable", "each variable is clipped by its own norm", "norm",
     _norm(lambda right, m, p: norm_of({"": m.clipping[p.variable.name]}, replace(m.semantics, clip_norm="all")))),
    ("norm-plus-one", "1 is added to the norm", "norm", _norm(lambda right, m, p: right + 1)),
    ("norms-added", "the variables' norms are added, not their squares", "norm", _norm(lambda right, m, p: sum(
        norm_of({n: g}, m.semantics) for n, g in m.clipping.items()))),
    ("not-clipped", "gradients are not clipped", "scale", _norm(lambda right, m, p: 1.0)),
    ("always-scaled", "gradients are scaled to the largest norm, those that are smaller too", "scale",
     _norm(lambda right, m, p: m.task["clip"] / max(norm_of(m.clipping, m.semantics), 1e-300))),
    ("scaled-to-one", "gradients that are too large are scaled to norm 1", "scale",
     _norm(lambda right, m, p: right if right == 1.0 else right / m.task["clip"])),
    ("clipped-twice", "the scale is applied twice", "scale", _norm(lambda right, m, p: right * right)),
    ("scale-inverted", "the scale is norm / largest norm", "scale", _norm(lambda right, m, p: 1 / right)),
    ("clipped-by-value", "each element is clipped, not the norm", "clipped", _norm(_clipped(
        lambda m, p, found: {n: with_numbers(g, lambda x: np.clip(x, -m.task["clip"], m.task["clip"]))
                             for n, g in found.items()}))),
    ("clipped-by-row", "each row is clipped by its own norm", "clipped", _norm(_clipped(
        lambda m, p, found: {n: _by_row(g, m.task["clip"]) for n, g in found.items()}))),
)


def _rates(updates):
    """The rate of another update: updates(done, machine, place) -> number of it."""
    def changed(right, machine, place):
        factor = machine.task.get("rate_factor", 1.0)
        done = machine.replicas[place.rank if len(machine.simulated) > 1 else 0].updates
        return machine.task["rate"] * factor ** updates(done, machine, place)

    return changed


RATES = (
    ("rate-constant", "the learning rate does not fall", "rate", _if_task("rate_factor", lambda right, m, p:
                                                                          m.task["rate"])),
    ("rate-early", "the learning rate falls one update too early", "rate",
     _if_task("rate_factor", _rates(lambda k, m, p: k + 1))),
    ("rate-late", "the learning rate falls one update too late", "rate",
     _if_task("rate_factor", _rates(lambda k, m, p: max(0, k - 1)))),
    ("rate-per-variable", "the learning rate falls with every variable, not with every update", "rate",
     _if_task("rate_factor", _rates(lambda k, m, p: k * len(m.case.variables) + [v.name for v in m.case.variables]
                                    .index(p.variable.name)))),
    ("rate-times-n", "the learning rate is multiplied by N", "rate", lambda right, m, p: right * m.case.ranks),
    ("rate-by-n", "the learning rate is divided by N", "rate", lambda right, m, p: right / m.case.ranks),
    ("rate-squared", "the learning rate is applied twice", "rate", lambda right, m, p: right * right),
    ("rate-missing", "the learning rate is not applied", "rate", lambda right, m, p: 1.0),
    ("rate-doubled", "the learning rate is twice as large", "rate", lambda right, m, p: right * 2),
    ("rate-halved", "the learning rate is half as large", "rate", lambda right, m, p: right / 2),
    ("ascent", "the update is added, not subtracted", "rate", lambda right, m, p: -right),
    ("clock-from-two", "the optimizer's step counter is one too large", "clock", lambda right, m, p: right + 1),
    ("clock-late", "the optimizer's step counter is one too small from the second update on", "clock",
     lambda right, m, p: max(1, right - 1)),
    ("clock-stopped", "the optimizer's step counter stays at 1", "clock", lambda right, m, p: 1),
    ("clock-per-variable", "the optimizer's step counter advances with every variable, not with every update", "clock",
     lambda right, m, p: (right - 1) * len(m.case.variables) + 1 + [v.name for v in m.case.variables].index(
         p.variable.name)),
)


def _restored(change):
    def changed(right, machine, place):
        change(right, machine)
        return right

    return _if_task("resume_after", changed)


def _forget(replica, machine):
    replica.state = machine.fresh(replica.values)


def _forget_slot(replica, machine, slot):
    if any(slot not in state for state in replica.state.values()):
        raise Impossible
    fresh = machine.fresh(replica.values)
    replica.state = {n: {**state, slot: fresh[n][slot]} for n, state in replica.state.items()}


def _to_start(replica, machine):
    replica.values = {n: a.astype(np.float64) for n, a in start_of(machine.case, 0).items()}


RESUMING = (
    ("state-lost", "the optimizer's state is lost on resuming", "restored", _restored(_forget)),
    ("rate-restarted", "the learning rate starts anew after resuming", "restored",
     _restored(lambda replica, m: setattr(replica, "updates", 0))),
    ("clock-restarted", "the optimizer's step counter starts anew after resuming", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", 0))),
    ("state-lost", "the optimizer's first moment is lost on resuming", "restored",
     _restored(lambda replica, m: _forget_slot(replica, m, "first"))),
    ("state-lost", "the optimizer's second moment is lost on resuming", "restored",
     _restored(lambda replica, m: _forget_slot(replica, m, "second"))),
    ("parameters-lost", "training resumes from the initial parameters", "restored", _restored(_to_start)),
    ("clock-ahead", "after resuming the optimizer's step counter is one too large", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", replica.clock + 1))),
    ("clock-behind", "after resuming the optimizer's step counter is one too small", "restored",
     _restored(lambda replica, m: setattr(replica, "clock", max(0, replica.clock - 1)))),
    ("rate-ahead", "after resuming the learning rate is one update ahead", "restored",
     _restored(lambda replica, m: setattr(replica, "updates", replica.updates + 1))),
)


@cache
def deviations(ranks: int) -> list[Deviation]:
    """Return those that make sense on a number of ranks. Local."""
    found = [Deviation(*one) for one in (*AROUND, *WINDOWS, *CLIPPING, *RATES, *RESUMING)]
    if ranks > 1:
        for code, words, divided in (("parameter-reduced", "averaged", True), ("parameter-summed", "summed", False)):
            found.append(Deviation(code, f"the parameters are {words} over the ranks, not the gradients", "updates",
                                   _alone, also={"before": _of_all_values(divided)}))
    return found
