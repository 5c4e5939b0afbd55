"""What training on given gradients should give, step by step, in float64; and what it would give with a known fault.

A fault is one deviation, under a name. The expectation has none; a diagnosis tries them in turn.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.conformance.case import Case, Rows, with_numbers
from refimpl.conformance.cases.training import start_of
from refimpl.conformance.rules.aggregate import Wanted, once, row_divisor
from refimpl.conformance.rules.gradients import clip_scales, merge_occurrences, norm_of
from refimpl.conformance.rules.optimizers import apply_part, initial_state
from refimpl.conformance.semantics import Semantics


@dataclass(frozen=True)
class Fault:
    """One deviation; kind: see ``diagnose.training.WORDS``. ranks, variable: what it hits; None: every variable."""

    kind: str
    ranks: tuple[int, ...]
    variable: str | None = None


class Replica:
    """One rank's parameters and optimizer state: it starts from rank 0's values."""

    def __init__(self, case: Case):
        self.task = case.settings["task"]
        self.values = {n: a.astype(np.float64) for n, a in start_of(case, 0).items()}
        self.travel = {n: np.abs(a) for n, a in self.values.items()}
        self.clock, self.updates = 0, 0
        self.forget()

    def forget(self):
        """Set the optimizer's arrays to their initial values."""
        self.state = {n: initial_state(self.task["optimizer"], a, self.task["options"]) for n, a in self.values.items()}

    def update(self, gradients, everywhere: bool):
        """Apply gradients: name -> array or Rows. everywhere: rows that are not in them get gradient 0."""
        rate = self.task["rate"] * self.task.get("rate_factor", 1.0) ** self.updates
        settings = rate, self.clock + 1, self.task["options"]
        for name, g in gradients.items():
            p, before = self.values[name], self.values[name].copy()
            apply_part(self.task["optimizer"], p, self.state[name], g, everywhere, *settings)
            self.travel[name] += np.abs(p - before)

    def tick(self, by: int = 1):
        """One update is done."""
        self.clock, self.updates = self.clock + by, self.updates + by


def expected_training(case: Case, semantics: Semantics) -> list[dict[str, Wanted]]:
    """Return, update by update, name -> what every rank should hold."""
    replica, result = Replica(case), []
    for update, snapshots in enumerate(_run(case, semantics, [replica], None)):
        size = 16 * (update + 2)
        result.append({name: Wanted(value, size * np.finfo(case.variable(name).dtype).eps * replica.travel[name],
                                    case.variable(name).dtype) for name, value in snapshots[0].items()})
    return result


def with_fault(case: Case, semantics: Semantics, fault: Fault) -> list[list[dict[str, np.ndarray]]]:
    """Return result[update][rank] = name -> value, as training with this fault would give it."""
    replicas = [Replica(case) for _ in range(case.ranks)]
    for rank in fault.ranks if fault.kind == "not-broadcast" else ():
        own = start_of(case, rank)
        for name in [fault.variable] if fault.variable else own:
            replicas[rank].values[name] = own[name].astype(np.float64)
    return list(_run(case, semantics, replicas, fault))


def _run(case, semantics, replicas, fault):
    """Yield, update by update, each replica's values. Where nothing is wrong one replica stands for all."""
    for update, window in enumerate(windows(case, semantics)):
        if update == case.settings["task"].get("resume_after") and fault:
            _resume(replicas, fault)
        locals_ = [local_gradient(case, semantics, window, r, fault) for r in range(case.ranks)]
        for rank, replica in enumerate(replicas):
            hit = fault is not None and rank in fault.ranks
            for gradients in _gradients_to_apply(case, semantics, locals_, rank, fault if hit else None):
                replica.update(gradients, semantics.updates_every_row(replica.task["optimizer"]))
            replica.tick(len(window) if hit and fault.kind == "micro-clock" else 1)
        yield [{n: a.copy() for n, a in replica.values.items()} for replica in replicas]
        if fault and fault.kind.startswith("parameter-"):
            _reduce_parameters(replicas, fault)


def windows(case: Case, semantics: Semantics) -> list[range]:
    """Return the micro-steps of each update."""
    size, micro = case.settings["task"].get("window", 1), len(case.steps)
    found = [range(first, min(first + size, micro)) for first in range(0, micro, size)]
    return [w for w in found if len(w) == size or semantics.partial != "dropped"]


def local_gradient(case: Case, semantics: Semantics, window: range, rank: int, fault=None):
    """Return name -> array or Rows (not merged): a rank's gradient of a window, its loss scale removed."""
    kept = fault is not None and fault.kind == "loss-scale-kept" and rank in fault.ranks
    divisor = 1.0 if kept else case.settings["task"].get("loss_scale", 1.0)
    if semantics.window == "average":
        size = case.settings["task"].get("window", 1)
        divisor *= size if semantics.partial == "applied-by-window" else len(window)
    result = {}
    for variable in case.variables:
        parts = [case.steps[s][rank][variable.name] for s in window]
        if variable.sparse:
            parts = [once(p) if semantics.duplicates == "last" else p for p in parts]
            result[variable.name] = Rows(np.concatenate([p.ids for p in parts]),
                                         np.concatenate([p.rows.astype(np.float64) for p in parts]) / divisor)
        else:
            result[variable.name] = sum(p.astype(np.float64) for p in parts) / divisor
    return result


def _gradients_to_apply(case, semantics, locals_, rank, fault):
    """Return the gradients that a replica applies, one after the other: one, where nothing is wrong."""
    kind = fault.kind if fault else ""
    if kind in ("local", "parameter-reduced", "parameter-summed"):
        return [_merged(locals_[rank])]
    if kind in ("one-by-one", "shares-one-by-one"):
        share = 1 if kind == "one-by-one" else len(locals_)
        return [_merged(g, share) for g in locals_]
    clip = case.settings["task"].get("clip")
    if semantics.clip_point == "before" and clip:
        locals_ = [_scaled(g, clip_scales(clip, g, semantics)) for g in locals_]
    divided = _divided(locals_, semantics)
    total = {name: merge_occurrences(g) for name, g in divided.items()}
    if semantics.clip_point == "after" and clip:
        if kind == "local-norm":
            scale = min(1.0, clip / norm_of(_merged(locals_[rank]), semantics))
            total = _scaled(total, {name: scale for name in total})
        else:
            total = _scaled(total, clip_scales(clip, divided, semantics))
    return list(_apart(divided, total)) if kind == "duplicates-apart" else [total]


def _divided(locals_, semantics) -> dict:
    """Return name -> the sum of arrays, or all occurrences of rows, each divided as the manifest says. Not merged."""
    result = {}
    for name in locals_[0]:
        parts = [g[name] for g in locals_]
        if isinstance(parts[0], Rows):
            ids = np.concatenate([p.ids for p in parts])
            unique, place = np.unique(ids, return_inverse=True)
            divisor = row_divisor(parts, unique, np.bincount(place, minlength=len(unique)), semantics.sparse)
            result[name] = Rows(ids, np.concatenate([p.rows for p in parts]) / divisor[place][:, None])
        else:
            result[name] = sum(parts) / (len(parts) if semantics.dense == "average" else 1)
    return result


def _merged(gradients, divisor=1) -> dict:
    return {name: merge_occurrences(g, divisor) for name, g in gradients.items()}


def _scaled(gradients, scales) -> dict:
    return {n: with_numbers(g, lambda x, scale=scales[n]: x * scale) for n, g in gradients.items()}


def _apart(divided, total):
    """Yield the update in pieces: the k-th occurrence of each id, dense ones with the first."""
    turn = {name: np.array([np.count_nonzero(g.ids[:i] == k) for i, k in enumerate(g.ids)])
            for name, g in divided.items() if isinstance(g, Rows)}
    for k in range(max(int(t.max(initial=0)) for t in turn.values()) + 1):
        piece = {name: Rows(divided[name].ids[t == k], divided[name].rows[t == k]) for name, t in turn.items()}
        yield piece if k else {**piece, **{n: g for n, g in total.items() if not isinstance(g, Rows)}}


def _resume(replicas, fault):
    for rank in fault.ranks:
        replica = replicas[rank]
        if fault.kind == "rate-restarted":
            replica.updates = 0
        elif fault.kind == "clock-restarted":
            replica.clock = 0
        elif fault.kind == "state-lost":
            replica.forget()


def _reduce_parameters(replicas, fault):
    divisor = len(replicas) if fault.kind == "parameter-reduced" else 1
    for name in replicas[0].values:
        total = sum(replica.values[name] for replica in replicas) / divisor
        for replica in replicas:
            replica.values[name] = total.copy()
