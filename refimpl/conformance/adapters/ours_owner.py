"""Our owners without barriers, several of them, as one: each pull and push goes to all, as a worker's do."""

import numpy as np

from kernels import RowGradient
from models import Variable
from refimpl.conformance.traces.record import Given
from refimpl.plain.corrections import CORRECTIONS
from refimpl.plain.hybrid import Options
from refimpl.plain.owner import Owner


class Owners:
    """What ``arrivals.play`` talks to. task: an ``Arrivals``.  count: of owners."""

    def __init__(self, task, count: int):
        self.task, self.count = task, count
        variables = [Variable(v.name, v.shape, v.sparse, Given.of(self.start(v)), v.dtype) for v in task.variables]
        numbers = {name: value for name, value in task.options.items() if name != "initial"}
        options, steps = Options(task.optimizer, task.rate, optimizer_options=numbers), len(task.entries)
        self.owners = [Owner(i, count, task.workers, steps, variables, options, task.consistency, task.correction)
                       for i in range(count)]
        for owner in self.owners:
            owner.correction = CORRECTIONS[task.correction](task.workers, **task.constants)

    def start(self, v):
        """Return a variable's whole initial value."""
        if not v.sparse:
            return self.task.start[v.name]
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
        for owner in self.owners:
            mine = {name: ids % self.count == owner.number for name, ids in rows.items()}
            _, values = owner.pull(worker, {name: ids[mine[name]] for name, ids in rows.items()})
            for name, value in values.items():
                if name in rows:
                    result[name][mine[name]] = value
                else:
                    result[name] = value
        return result

    def push(self, worker, gradients):
        """Push a worker's own mean, as its part of the mean over all workers."""
        whole, scalar = {}, np.float32(self.task.workers)
        for name, g in gradients.items():
            whole[name] = RowGradient(g[0], g[1] / scalar) if isinstance(g, tuple) else g / scalar
        for owner in self.owners:
            parts = {}
            for v in owner.variables:
                g = whole[v.name]
                mine = g.ids % self.count == owner.number if v.sparse else ...
                parts[v.name] = RowGradient(g.ids[mine], g.rows[mine]) if v.sparse else g
            owner.push(worker, parts)
