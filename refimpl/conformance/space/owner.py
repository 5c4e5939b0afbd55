"""The answers of an owner without barriers, and wrong owners: the plain owner with one method replaced.

The plain owner plays the script of a case in this process, in float64. Values are exact, unless the optimizer divides
by a root: then they may be wrong by ``bounds.of_updates``. The docstring of a class says what is wrong.
"""

from dataclasses import replace

import numpy as np

from refimpl.conformance.arrivals import play
from refimpl.conformance.bounds import Expected, of_updates
from refimpl.conformance.case import Arrivals, Rows
from refimpl.conformance.cases.owner import arrivals_of
from refimpl.conformance.space.deviation import SimulatedClass
from refimpl.plain.updating.optimizers import OPTIMIZERS
from refimpl.plain.without_barriers.consistencies import Bounded, consistency
from refimpl.plain.without_barriers.corrections import CORRECTIONS
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
    """The mean of an update is not rescaled: its pushes are divided by the number of workers, not by their own number.
    """

    def times(self, pushes):
        return 1


class Summed(Owner):
    """The pushes of an update are added: their mean is wanted."""

    def times(self, pushes):
        return len(self.clocks)


class StalenessPerWorker(Owner):
    """Staleness is counted per worker, not per row: all updates of the owner since the pull count, also those of other
    rows.
    """

    def stale(self, v, push, at, updates):
        return np.full_like(updates, self.version - push.version)


class Aliased(Owner):
    """The old value is an alias of the current one: their difference is 0, and nothing is compensated."""

    def old(self, v, push, at):
        return self.values[v.name][at], super().old(v, push, at)[1]


class Uncorrected(Owner):
    """Staleness is not corrected: gradients are applied as they are pushed."""

    def correct(self, v, at, g, staleness, then):
        return g


class Versioned(Owner):
    """An owner whose answers say how many updates their values contain."""

    def told_version(self, worker):
        """Return the version in an answer to a worker."""
        return self.version


class VersionCountsPushes(Versioned):
    """The version in an answer counts pushes, not updates."""

    def told_version(self, worker):
        return sum(self.clocks)


class VersionOfWorker(Versioned):
    """The version in an answer counts the worker's own pushes, not the owner's updates."""

    def told_version(self, worker):
        return self.clocks[worker]


class VersionAhead(Versioned):
    """The version in an answer is one too large."""

    def told_version(self, worker):
        return self.version + 1


KINDS = {StaleDropped: 38, LateCounted: 39, ClockEarly: 40, ClockLate: 40, DividedByWorkers: 42, Summed: 42,
         StalenessPerWorker: 41, Aliased: 37, Uncorrected: 0, VersionCountsPushes: 0, VersionOfWorker: 0,
         VersionAhead: 0}
"""Class -> the number in docs/bugs.md, which shows its code beside the right one; 0: it has none."""


class Served(SimulatedClass):
    """The answers to a case of kind owner: the values of each pull, and whether it waited."""

    kinds = KINDS

    def simulate(self, kind):
        task, result = arrivals_of(self.case, 0), []
        try:
            answers = play(owner_of(kind or Owner, ExpectedOwner)(task), task.entries)
        except (RuntimeError, ValueError):  # a pull is never answered, or a push is refused
            return None
        for waited, values in answers:
            if "versions" not in self.case.needs:
                values.pop("version")
            exact = {name: replace(want, tolerance=np.zeros_like(want.tolerance)) for name, want in values.items()}
            result.append({"waited": Expected(np.array(waited, np.float64), np.zeros(()), "int64"),
                           **(exact if self.case.exact else values)})
        return result


class RowUpdates:
    """Does the updates of an owner, with a fixed rate. values: name -> array, updated in place."""

    def __init__(self, task: Arrivals, values):
        self.rule, self.rate, self.values = OPTIMIZERS[task.optimizer](**task.options), task.rate, values
        self.state = {name: self.rule.state(array) for name, array in values.items()}

    def update(self, step, sums):
        """Do one step. sums: name -> (places, gradient)."""
        for name, (at, g) in sums.items():
            self.rule.apply(self.values[name], self.state[name], at, g, self.rate, step + 1)


class ScriptOwner(Versioned):
    """The only owner of a script, for ``arrivals.play``. It keeps only the rows that the script names.

    dtype: of its values.
    """

    owners = 1

    def __init__(self, task: Arrivals, dtype):
        self.dtype = np.dtype(dtype)
        self.ids = {v.name: task.start[v.name][0] for v in task.variables if v.sparse}
        values = {name: np.array(part[1] if name in self.ids else part, dtype) for name, part in task.start.items()}
        self.begin(task.variables, values, RowUpdates(task, values), task.workers,
                   consistency(task.consistency, task.workers, len(task.entries)),
                   CORRECTIONS[task.correction](task.workers, **task.constants))

    def pull(self, worker, rows):
        values = super().pull(worker, {name: self.at(name, ids) for name, ids in rows.items()})[1]
        return {**values, "version": np.array(self.told_version(worker), np.int64)}

    def push(self, worker, gradients):
        """Take a worker's own mean gradients, as its part of the mean over all workers."""
        parts = {name: Rows(self.at(name, g[0]), self.part(g[1])) if name in self.ids else self.part(g)
                 for name, g in gradients.items()}
        super().push(worker, parts)

    def at(self, name, ids):
        """Return the places of rows."""
        return np.searchsorted(self.ids[name], ids)

    def part(self, g):
        """Return a worker's part of the mean over all workers."""
        return g.astype(self.dtype) / self.dtype.type(len(self.clocks))


class ExpectedOwner(ScriptOwner):
    """Answers each pull with Expected: the value, and the tolerance for float32."""

    def __init__(self, task: Arrivals, dtype="float64"):
        super().__init__(task, dtype)
        self.travel = {name: np.abs(array) for name, array in self.values.items()}

    def update(self, pushes):
        """Do an update, and add its change to the travel of each value."""
        before = {name: array.copy() for name, array in self.values.items()}
        super().update(pushes)
        for name, array in self.values.items():
            self.travel[name] += np.abs(array - before[name])

    def pull(self, worker, rows):
        """Return name -> Expected."""
        found = super().pull(worker, rows)
        result = {"version": Expected(found.pop("version"), np.zeros(()), "int64")}
        for name, value in found.items():
            travel = self.travel[name][self.pulled[worker][name][0]]
            tolerance = of_updates(self.version, travel, np.float32)
            result[name] = Expected(Rows(rows[name], value) if name in rows else value, tolerance, "float32")
        return result


def owner_of(kind: type[Owner], role: type[ScriptOwner]) -> type[ScriptOwner]:
    """Return the class of a script's owner that decides as ``kind``, the plain owner or a wrong one. Local."""
    return type(kind.__name__, (role, kind), {})
