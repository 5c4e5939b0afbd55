"""Equals plain/without_barriers/owner.py: an owner answers pulls, applies pushes, and writes the event log.

The plain file explains the words. A push keeps the memory of its message until the update is done. Pulled values
are kept only if a correction needs them.
"""

from collections import Counter
from operator import iadd
from typing import Any, NamedTuple

import numpy as np

from kernels import RowGradient, merge_rows, take_rows
from refimpl.gradients import Node, fold
from refimpl.plain.without_barriers.consistencies import consistency
from refimpl.plain.without_barriers.corrections import CORRECTIONS, DelayCompensated
from refimpl.plain.without_barriers.owner import Push
from refimpl.server import ReducedGradient, Shard
from refimpl.training.step.update import update_shards


class Pulled(NamedTuple):
    """What a worker has pulled of a variable. at: (k,) rows of the shard, or ``...`` for all.

    updates: the number of updates of each then.  values: the values then; None if no correction needs them.
    """

    at: Any
    updates: Any
    values: Any


class Owner:
    """The owner part of a rank without barriers. Local.

    shards: name -> the shard of each variable; a dense variable is whole or missing.  workers: N.
    options: of the training, ``Options``.  clocks, version, seen: see ``plain.without_barriers.consistencies``.
    record: the event log: a worker's number for each pull answered and each push received.
    staleness: τ -> the number of rows and dense variables pushed with it.
    """

    def __init__(self, shards: dict[str, Shard], workers: int, options):
        self.shards, self.options, self.workers = shards, options, workers
        self.consistency = consistency(options.consistency, workers, options.steps)
        self.correction = CORRECTIONS[options.correction](workers)
        self.keeps = isinstance(self.correction, DelayCompensated)
        self.updates = {name: np.zeros(len(s.values) if s.variable.sparse else (), np.int64)
                        for name, s in shards.items()}
        self.version, self.clocks, self.seen = 0, [0] * workers, [-1] * workers
        self.pulled: dict[int, dict[str, Pulled]] = {}
        self.record: list[int] = []
        self.staleness: Counter = Counter()

    def over(self, worker) -> bool:
        """Return whether the training is over for a worker that pulls now."""
        return self.consistency.over(self, worker)

    def answers(self, worker) -> bool:
        """Return whether this worker's pull may be answered now."""
        return self.over(worker) or self.consistency.answers(self, worker)

    def pull(self, worker: int, numbers: dict) -> dict:
        """Return name -> values: rows ``numbers[name]`` of the shard, or all. numbers: of each sparse variable."""
        self.record.append(worker)
        self.seen[worker], self.pulled[worker] = self.version, {}
        answer = {}
        for name, shard in self.shards.items():
            at = numbers[name] if shard.variable.sparse else ...
            answer[name] = take_rows(shard.values, at) if shard.variable.sparse else shard.values
            self.remember(worker, name, at, answer[name])
        return answer

    def remember(self, worker, name, at, values):
        """Note what a worker pulls, for the correction of its push."""
        if self.keeps and not self.shards[name].variable.sparse:
            values = np.array(values)
        self.pulled[worker][name] = Pulled(at, np.array(self.updates[name][at]), values if self.keeps else None)

    def push(self, worker: int, gradients: dict):
        """Take the gradients that a worker computed from its last pull; do the updates that follow."""
        self.record.append(worker)
        push = Push(worker, self.clocks[worker], self.seen[worker], gradients, self.pulled.pop(worker))
        self.clocks[worker] += 1
        for pushes in self.consistency.arrived(self, push):
            self.update(pushes)

    def update(self, pushes: list[Push]):
        """Do one step of the optimizer with the mean of these pushes."""
        reduced, mean = [], self.workers / len(pushes)
        for name, shard in self.shards.items():
            sparse = shard.variable.sparse
            parts = [(Node(0, i), self.corrected(shard, push)) for i, push in enumerate(pushes)]
            total = fold(parts, merge_rows if sparse else iadd)
            at, total = (total.ids, total.rows) if sparse else (None, total)
            if mean != 1:
                total *= total.dtype.type(mean)
            self.updates[name][... if at is None else at] += 1
            reduced.append(ReducedGradient(shard, at, total, True))
        update_shards(self.options, self.version, reduced)
        self.version += 1

    def corrected(self, shard: Shard, push: Push):
        """Return a push's gradient of a variable, corrected for its staleness."""
        variable, gradient = shard.variable, push.gradients[shard.variable.name]
        at, updates, values = push.pulled[variable.name]
        if variable.sparse and not np.array_equal(gradient.ids, at):
            places = _places(at, gradient.ids, push.worker, variable.name)
            updates, values = updates[places], None if values is None else values[places]
        at, g = (gradient.ids, gradient.rows) if variable.sparse else (..., gradient)
        staleness = self.updates[variable.name][at] - updates
        self._count(staleness)
        if variable.statistic:
            return gradient
        staleness = staleness.reshape(-1, 1) if variable.sparse else staleness
        g = self.correction(variable.name, shard.values, at, g, staleness, values)
        return RowGradient(at, g) if variable.sparse else g

    def _count(self, staleness):
        if staleness.size:
            counts = np.bincount(staleness.ravel())
            self.staleness.update({int(late): int(counts[late]) for late in np.flatnonzero(counts)})


def _places(pulled, ids, worker, name):
    """Return the places of pushed rows among the pulled rows. Raises ValueError if some were not pulled."""
    places = np.searchsorted(pulled, ids)
    if len(ids) and (not len(pulled) or (pulled.take(places, mode="clip") != ids).any()):
        raise ValueError(f"worker {worker} pushes rows of {name} that it has not pulled")
    return places
