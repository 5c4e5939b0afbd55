"""Bugs of training, data and resuming, planted in copies of the reference adapter. Each class is one bug."""

from dataclasses import replace

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.case import Rows
from refimpl.conformance.cases.numbers import words
from refimpl.conformance.rules.gradients import merge_occurrences


class FullBatchCount(Reference):
    """The last batch is divided as if every rank had a full one."""

    def reduce_loss(self, losses, gradients):
        totals, sums, counts = zip(*self.world.allgather((losses.sum(), gradients.sum(axis=0), len(losses))))
        count = max(counts) * self.world.size
        return np.asarray(sum(totals) / count), sum(sums) / count


class ClockPerMicroStep(Reference):
    def tick(self, window):
        self.clock, self.updates = self.clock + len(window), self.updates + len(window)


class LossScaleKept(Reference):
    def accumulated(self, task, window):
        return super().accumulated(replace(task, loss_scale=1.0), window)


class DuplicatesApart(Reference):
    """Rows that share an id are handed to the optimizer as they come."""

    def apply_one(self, task, variable, gradient):
        if not variable.sparse:
            super().apply_one(task, variable, gradient)
            return
        ids, rows = self.unmerged({variable.name: gradient})[variable.name]
        for k in range(len(ids)):
            super().apply_one(task, variable, (ids[k:k + 1], rows[k:k + 1]))


class TableNotBroadcast(Reference):
    def first_values(self, task):
        return {**super().first_values(task), "items": np.array(task.start["items"])}


class LocalNorm(Reference):
    def clipped(self, task, total, local):
        return self.scaled(total, self.scale(task, local, local)) if task.clip else total


class RateNotRestored(Reference):
    def load(self, task, saved):
        super().load(task, saved)
        self.updates = 0


class RateOnRankZeroOnly(Reference):
    def load(self, task, saved):
        super().load(task, saved)
        if self.world.rank:
            self.updates = 0


class StateNotRestored(Reference):
    def load(self, task, saved):
        super().load(task, saved)
        self.state = self.first_state(task)


class SameRandomNumbers(Reference):
    def draw(self, count, step):
        return words(f"draw{step}", count) / 2.0**64


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


class OneByOne(Reference):
    """The server applies each worker's gradient as it comes."""

    def aggregated(self, task, local):
        self.everyone = self.world.allgather(local)
        return super().aggregated(task, local)

    def apply_all(self, task, total):
        for gradients in self.everyone:
            super().apply_all(task, _merged(gradients))


class ParameterReduced(Reference):
    """The hook is given the parameter: it is averaged, and each rank goes on with its own gradient."""

    def aggregated(self, task, local):
        everyone = self.world.allgather(self.values)
        self.values = {n: sum(v[n] for v in everyone) / np.float32(self.world.size) for n in self.values}
        self.occurrences = [local]
        return _merged(local)


def _merged(gradients):
    """Return one rank's gradients, the rows that share an id added."""
    result = {n: merge_occurrences(Rows(*g)) if isinstance(g, tuple) else g for n, g in gradients.items()}
    return {n: (g.ids, g.rows) if isinstance(g, Rows) else g for n, g in result.items()}
