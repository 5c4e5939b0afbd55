"""Deviations of owners without barriers: the plain owner with a method replaced. A docstring says what is wrong."""

import numpy as np

from refimpl.conformance.rules.owner import served
from refimpl.conformance.space.deviation import SimulatedClass
from refimpl.plain.without_barriers.consistencies import Bounded
from refimpl.plain.without_barriers.owner import Owner


class StaleDropped(Owner):
    """A stale gradient is silently dropped: only pushes of workers that pulled the newest version count."""

    def push(self, worker, gradients):
        if self.seen[worker] == self.version:
            return super().push(worker, gradients)
        self.pulled.pop(worker)
        self.clocks[worker] += 1


class LateCounted(Owner):
    """A late push is not dropped: it counts for a step whose values its worker had not pulled."""

    def version_of(self, worker):
        return self.version


class ClockEarly(Owner):
    """The clock is off by one: a worker S - 1 steps ahead of the slowest is the last to go on, not one S steps
    ahead.
    """

    late = -1

    def answers(self, worker):
        if not isinstance(self.consistency, Bounded):
            return super().answers(worker)
        return self.clocks[worker] - min(self.clocks) <= self.consistency.number + self.late


class ClockLate(ClockEarly):
    """The clock is off by one: a worker S + 1 steps ahead of the slowest goes on, though it should wait."""

    late = 1


class DividedByWorkers(Owner):
    """An update's mean is not rescaled: its pushes are divided by N, the number of workers, not by their own number."""

    def times(self, pushes):
        return 1


class Summed(Owner):
    """The pushes of an update are added: their mean is wanted."""

    def times(self, pushes):
        return len(self.clocks)


class StalenessPerWorker(Owner):
    """Staleness is counted per worker, not per row: by the owner's updates since the worker pulled, whichever rows they
    touched.
    """

    def stale(self, v, push, at, updates):
        return np.full_like(updates, self.version - push.version)


class Aliased(Owner):
    """The old value is an alias of the current one: their difference is 0, and nothing is compensated."""

    def old(self, v, push, at):
        return self.values[v.name][at], super().old(v, push, at)[1]


class Uncorrected(Owner):
    """Staleness is not corrected: gradients are applied as they came."""

    def correct(self, v, at, g, staleness, then):
        return g


KINDS = {StaleDropped: 38, LateCounted: 39, ClockEarly: 40, ClockLate: 40, DividedByWorkers: 42, Summed: 42,
         StalenessPerWorker: 41, Aliased: 37, Uncorrected: 0}
"""Class -> the number in docs/bugs.md, which shows its code beside the right one; 0: it has none."""


class Served(SimulatedClass):
    """The answers to a case of kind owner: what each pull gets, and whether it waited."""

    kinds = KINDS

    def simulate(self, kind):
        return served(self.case, kind or Owner)
