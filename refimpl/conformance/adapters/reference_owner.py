"""The owner without barriers of the reference adapter: pulls answered, pushes applied, in one array a variable.

Each of its decisions is a method of its own.
"""

from typing import NamedTuple

import numpy as np

from refimpl.plain.optimizers import OPTIMIZERS


class ReferencePush(NamedTuple):
    """A worker's own mean gradients, at which version of the owner it had pulled, and what: name -> (values, updates).

    gradients: name -> (places, array).
    """

    worker: int
    version: int
    gradients: dict
    old: dict


class ReferenceOwner:
    """Keeps ``values``, name -> array; places: name -> id -> row of that array. task: an ``Arrivals``."""

    def __init__(self, task):
        self.task, self.rule = task, task.consistency.partition(":")[0]
        self.number = int(task.consistency.partition(":")[2] or 0)
        sparse = {v.name for v in task.variables if v.sparse}
        self.places = {n: {k: at for at, k in enumerate(task.start[n][0].tolist())} for n in sparse}
        self.values = {n: np.array(part[1] if n in sparse else part) for n, part in task.start.items()}
        self.optimizer = OPTIMIZERS[task.optimizer](**task.options)
        self.state = {n: self.optimizer.state(a) for n, a in self.values.items()}
        self.updates = {n: np.zeros((len(a), 1) if n in sparse else (), np.int64) for n, a in self.values.items()}
        self.squares = {n: np.zeros_like(a) for n, a in self.values.items()}
        self.version, self.clocks, self.seen = 0, [0] * task.workers, [-1] * task.workers
        self.pulled, self.held = {}, []

    def answers(self, worker) -> bool:
        """Return whether this worker's pull may be answered now."""
        if self.rule == "bounded":
            return self.clocks[worker] - min(self.clocks) <= self.slack()
        return self.rule != "backup" or self.seen[worker] < self.version

    def slack(self) -> int:
        """Return how many steps a worker may be ahead of the slowest."""
        return self.number

    def pull(self, worker, rows) -> dict:
        """Return name -> values. rows: name -> ids."""
        self.seen[worker], self.pulled[worker] = self.version, {}
        for name in self.values:
            at = self.at(name, rows[name]) if name in self.places else ...
            self.pulled[worker][name] = at, self.then(name, at), np.array(self.updates[name][at])
        return {name: np.array(values) for name, (_, values, _) in self.pulled[worker].items()}

    def at(self, name, ids):
        """Return the places of rows."""
        return np.array([self.places[name][k] for k in ids.tolist()], np.int64)

    def then(self, name, at):
        """Return what a later push is compensated against: a copy."""
        return np.array(self.values[name][at])

    def push(self, worker, gradients):
        """Take a push; do the update that it completes."""
        parts = {n: (self.at(n, g[0]), g[1]) if n in self.places else (..., g) for n, g in gradients.items()}
        push = ReferencePush(worker, self.seen[worker], parts, self.pulled.pop(worker))
        self.clocks[worker] += 1
        if self.counts(push):
            self.held.append(push)
        if len(self.held) == self.full():
            self.update(sorted(self.held, key=lambda p: p.worker))
            self.held = []

    def counts(self, push) -> bool:
        """Return whether a push takes part in an update."""
        return self.rule != "backup" or push.version == self.version

    def full(self) -> int:
        """Return how many pushes make an update."""
        workers = self.task.workers
        return {"softsync": workers // max(1, self.number), "backup": workers - self.number}.get(self.rule, 1)

    def update(self, pushes):
        """Apply the mean of some pushes."""
        for name, values in self.values.items():
            whole, touched = np.zeros_like(values), np.zeros(self.updates[name].shape, bool)
            for push in pushes:
                at = push.gradients[name][0]
                whole[at] += self.corrected(name, push)
                touched[at] = True
            self.updates[name] += touched
            at = touched[:, 0] if name in self.places else ...
            self.optimizer.apply(values, self.state[name], at, whole[at] / np.float32(self.divisor(pushes)),
                                 self.task.rate, self.version + 1)
        self.version += 1

    def divisor(self, pushes) -> int:
        """Return what the sum of an update's pushes is divided by."""
        return len(pushes)

    def corrected(self, name, push):
        """Return a push's gradient of a variable, corrected."""
        at, g = push.gradients[name]
        then, updates = self.old(name, push, at)
        if self.task.correction == "staleness-aware":
            return g / np.maximum(1, self.staleness(name, push, at, updates)).astype(g.dtype)
        if self.task.correction == "none":
            return g
        return g + self.strength(name, at, g) * g * g * (self.values[name][at] - then)

    def old(self, name, push, at):
        """Return (values, updates) of these places when the worker pulled. Raises ValueError where it did not."""
        pulled, then, updates = push.old[name]
        if at is ...:
            return then, updates
        if not np.isin(at, pulled).all():
            raise ValueError(f"worker {push.worker} pushes rows of {name} that it has not pulled")
        place = np.searchsorted(pulled, at)
        return then[place], updates[place]

    def staleness(self, name, push, at, updates):
        """Return how often each of these was updated since the worker pulled it."""
        return self.updates[name][at] - updates

    def strength(self, name, at, g):
        """Return what dc-asgd multiplies the compensation with."""
        constants = {n: np.float32(x) for n, x in self.task.constants.items()}
        if self.task.correction == "dc-asgd":
            return constants["lam"]
        squares = constants["m"] * self.squares[name][at] + (1 - constants["m"]) * g * g
        self.squares[name][at] = squares
        return constants["lam"] / np.sqrt(squares + constants["epsilon"])
