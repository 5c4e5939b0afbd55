"""Our owners without barriers, several of them, as one: each pull and push goes to all, as a worker's do."""

import numpy as np

from kernels import RowGradient
from kernels.update import initial_state
from models import Variable
from refimpl.conformance.adapters.ours_training import divided
from refimpl.plain.without_barriers.corrections import CORRECTIONS
from refimpl.server import Shard
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.options import Options


class Owners:
    """What ``arrivals.play`` talks to: row r on owner r mod count, dense variables on the last.

    task: an ``Arrivals``.  count: of owners.
    """

    def __init__(self, task, count: int):
        self.task, self.count = task, count
        numbers = {name: value for name, value in task.options.items() if name != "initial"}
        options = Options(optimizer=task.optimizer, learning_rate=task.rate, optimizer_options=numbers,
                          steps=len(task.entries), consistency=task.consistency, correction=task.correction)
        self.owners = [Owner(self.shards(i), task.workers, options) for i in range(count)]
        for owner in self.owners:
            owner.correction = CORRECTIONS[task.correction](task.workers, **task.constants)

    def shards(self, number) -> dict[str, Shard]:
        """Return name -> what an owner keeps at the start."""
        found = {}
        for v in self.task.variables:
            if not v.sparse and number < self.count - 1:
                continue
            values = np.array(self.task.start[v.name] if not v.sparse else self.table(v)[number::self.count])
            variable = Variable(v.name, v.shape, v.sparse, dtype=v.dtype)
            found[v.name] = Shard(variable, values, initial_state(self.task.optimizer, values))
        return found

    def table(self, v):
        """Return a sparse variable's whole initial value."""
        whole, (ids, rows) = np.zeros(v.shape, v.dtype), self.task.start[v.name]
        whole[ids] = rows
        return whole

    def answers(self, worker) -> bool:
        """Return whether all owners answer this worker's pull."""
        return all(owner.answers(worker) for owner in self.owners)

    def pull(self, worker, rows) -> dict:
        """Return name -> values, put together."""
        result = {name: np.empty((len(ids), *self.task.start[name][1].shape[1:]), np.float32)
                  for name, ids in rows.items()}
        for number, owner in enumerate(self.owners):
            mine = {name: ids % self.count == number for name, ids in rows.items()}
            values = owner.pull(worker, {name: ids[mine[name]] // self.count for name, ids in rows.items()})
            for name, value in values.items():
                if name in rows:
                    result[name][mine[name]] = value
                else:
                    result[name] = np.array(value)
        return {**result, "version": np.array(self.owners[0].version)}

    def push(self, worker, gradients):
        """Push a worker's own mean, as its part of the mean over all workers."""
        mean = divided(gradients, self.task.workers)
        for number, owner in enumerate(self.owners):
            owner.push(worker, {name: self.part(mean[name], number) for name in owner.shards})

    def part(self, gradient, number):
        """Return what an owner gets of a gradient."""
        if not isinstance(gradient, tuple):
            return gradient
        mine = gradient[0] % self.count == number
        return RowGradient(gradient[0][mine] // self.count, gradient[1][mine])
