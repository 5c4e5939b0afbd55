"""Bugs of training, data and resuming, planted in copies of the reference adapter. Each is one bug, nothing else."""

from dataclasses import replace

import numpy as np

from mutants.mutant import Mutant, planted, undeclared
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.cases.numbers import words
from refimpl.plain.adding.rows import merge_occurrences


class DuplicatesApart(Reference):
    """Rows that share an id are handed to the optimizer as they come."""

    def apply_one(self, task, variable, gradient):
        if not variable.sparse:
            super().apply_one(task, variable, gradient)
            return
        ids, rows = self.apart([own[variable.name] for own in self.everyone])
        for k in range(len(ids)):
            super().apply_one(task, variable, (ids[k:k + 1], rows[k:k + 1]))


class HalfApplied(Reference):
    """The last rank reads one table before its owner has applied the step."""

    def first_values(self, task):
        first = super().first_values(task)
        self.first = np.array(first["items"])
        return first

    def update(self, task):
        seen = super().update(task)
        if self.world.rank == self.world.size - 1:
            before = [self.first, *(values["items"] for values in seen)]
            seen = [{**values, "items": old} for values, old in zip(seen, before)]
        return seen


class ParameterReduced(Reference):
    """The hook is given the parameter: it is averaged, and each rank goes on with its own gradient."""

    def aggregated(self, task, local):
        everyone = self.world.allgather(self.values)
        self.values = {n: sum(v[n] for v in everyone) / np.float32(self.world.size) for n in self.values}
        self.everyone = [local]
        return _merged(local)


def _merged(gradients):
    """Return one rank's gradients, the rows that share an id added."""
    return {n: merge_occurrences(g) for n, g in gradients.items()}


TableNotBroadcast = planted(
    first_values=lambda self, right, task: {**right(task), "items": np.array(task.start["items"])})


def _clock_per_micro_step(self, right, window):
    self.clock, self.updates = self.clock + len(window), self.updates + len(window)


def _local_norm(self, right, task, total, local):
    return self.scaled(total, self.scale(task, local, local)) if task.clip else total


def _resumed(lost):
    """lost(self, task): attributes that are not restored -> what they are."""
    return planted(load=lambda self, right, task, saved: (right(task, saved), vars(self).update(lost(self, task))))


RateOnRankZeroOnly = _resumed(lambda self, task: {"updates": 0} if self.world.rank else {})


TRAINING = (
    Mutant(4, "mean of per-rank means", ("loss=mean-of-means",), undeclared(loss="mean-of-means")),
    Mutant(6, "the last batch divided by a full batch's count", ("divided-by-full-batch",), planted(
        weights=lambda self, right, counts: np.full(len(counts), 1 / (counts.max() * len(counts))))),
    Mutant(8, "accumulation advances the clock per micro-step", ("count-per-micro-step",), planted(
        tick=_clock_per_micro_step)),
    Mutant(8, "the partial last window is dropped", ("partial=dropped",), undeclared(partial="dropped")),
    Mutant(9, "the loss scale is not removed", ("loss-scale-missing",), planted(
        accumulated=lambda self, right, task, window: right(replace(task, loss_scale=1.0), window))),
    Mutant(12, "duplicate ids handed to the update", ("duplicates-apart",), DuplicatesApart),
    Mutant(18, "one table is not broadcast at the start", ("not-broadcast",), TableNotBroadcast),
    Mutant(19, "state of untouched rows is decayed", ("untouched=decayed",), undeclared(untouched="decayed")),
    Mutant(26, "the norm is local", ("local-norm",), planted(clipped=_local_norm)),
    Mutant(26, "the norm leaves out rows", ("clip_norm=dense-scales-all",), undeclared(clip_norm="dense-scales-all")),
    Mutant(27, "the learning rate is not restored", ("rate-restarted",), _resumed(lambda self, task: {"updates": 0})),
    Mutant(27, "the learning rate is restored on rank 0 only", ("rate-restarted",), RateOnRankZeroOnly),
    Mutant(27, "the optimizer's state is not restored", ("state-lost",), _resumed(
        lambda self, task: {"state": self.first_state(task, self.values)})),
    Mutant(28, "the sampler pads with repeats", ("sampler-pads",), undeclared(sampler="pads")),
    Mutant(28, "the sampler drops the tail", ("sampler-drops",), undeclared(sampler="drops")),
    Mutant(29, "every rank draws the same numbers", ("same-random-numbers",), planted(
        draw=lambda self, right, count, step: words(f"draw{step}", count) / 2.0**64)),
    Mutant(30, "a pull sees a step half applied", ("half-applied",), HalfApplied),
    Mutant(31, "gradients applied one by one", ("one-by-one", "shares-one-by-one"), planted(
        apply_all=lambda self, right, task, total: [right(task, _merged(g)) for g in self.everyone])),
    Mutant(32, "the parameter is reduced, not the gradient", ("parameter-reduced",), ParameterReduced),
)
