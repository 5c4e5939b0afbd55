"""What an owner should answer: ``refimpl.plain.without_barriers.owner`` plays the script in this process, in float64.

Where nothing divides by a root cases are exact; elsewhere a value may be ``bounds.of_updates`` away.
"""

from dataclasses import replace

import numpy as np

from refimpl.conformance.arrivals import play
from refimpl.conformance.case import Arrivals, Case, Rows
from refimpl.conformance.cases.owner import first_values
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.rules.bounds import of_updates
from refimpl.plain.updating.optimizers import OPTIMIZERS
from refimpl.plain.without_barriers.consistencies import consistency
from refimpl.plain.without_barriers.corrections import CORRECTIONS
from refimpl.plain.without_barriers.owner import Owner


class RowUpdates:
    """What does an owner's updates: an optimizer at a fixed rate. values: name -> array, updated in place."""

    def __init__(self, task: Arrivals, values):
        self.rule, self.rate, self.values = OPTIMIZERS[task.optimizer](**task.options), task.rate, values
        self.state = {name: self.rule.state(array) for name, array in values.items()}

    def update(self, step, sums):
        """Do one step. sums: name -> (places, gradient)."""
        for name, (at, g) in sums.items():
            self.rule.apply(self.values[name], self.state[name], at, g, self.rate, step + 1)


class ScriptOwner(Owner):
    """The one owner of a script, which keeps the rows that it names, whatever their numbers. ``arrivals.play`` asks it.

    dtype: in which it computes.
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
        return {**values, "version": np.array(self.version, np.int64)}

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
    """Answers pulls with what is expected: the value, and how far float32 may be from it."""

    def __init__(self, task: Arrivals, dtype="float64"):
        super().__init__(task, dtype)
        self.travel = {name: np.abs(array) for name, array in self.values.items()}

    def update(self, pushes):
        """Do an update, and add up how far each value travels."""
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
    """Return the owner of a script that decides as ``kind``: the plain owner, or one with a method replaced. Local."""
    return type(kind.__name__, (role, kind), {})


def served(case: Case, kind: type[Owner] = Owner) -> list[dict[str, Expected]] | None:
    """Return, pull by pull, name -> what it should get, and ``waited``. Local.

    kind: see ``owner_of``. None: some pull is never answered, or a push is refused.
    """
    def handed(part):
        return (part.ids, part.rows) if isinstance(part, Rows) else part

    start = {name: handed(part) for name, part in first_values(case).items()}
    entries = [(what, worker, {name: handed(part) for name, part in ranks[0].items()})
               for (what, worker), ranks in zip(case.settings["entries"], case.steps)]
    task = Arrivals(variables=case.variables, start=start, entries=entries, **case.settings["task"])
    try:
        answers = play(owner_of(kind, ExpectedOwner)(task), entries)
    except (RuntimeError, ValueError):
        return None
    result = []
    for waited, values in answers:
        if "versions" not in case.needs:
            values.pop("version")
        exact = {name: replace(want, tolerance=np.zeros_like(want.tolerance)) for name, want in values.items()}
        result.append({"waited": Expected(np.array(waited, np.float64), np.zeros(()), "int64"),
                       **(exact if case.exact else values)})
    return result
