"""A training on gradients that are given, decision by decision: accumulate, aggregate, clip, update, save and resume.

For each window of micro-steps: add this rank's gradients; make the ranks' one (``sums``); clip by the norm; update
every variable. A known mistake is this class with one method replaced.
"""

from copy import deepcopy

import numpy as np

from refimpl.plain.optimizers import OPTIMIZERS
from refimpl.plain.rows import Rows
from refimpl.plain.sums import Sums, norm_of


class Updates(Sums):
    """One rank's training. world: has rank and allgather. task: what is trained, see ``refimpl.conformance.case``."""

    world, clock, updates = None, 0, 0

    def update(self, task):
        """Return, update by update, name -> value of every variable."""
        self.values = self.first_values(task)
        self.state = self.first_state(task, self.values)
        self.clock, self.updates, seen = 0, 0, []
        for window in self.windows(task, task.steps):
            if self.updates == task.resume_after:
                self.load(task, self.save())
            local = self.accumulated(task, window)
            self.apply_all(task, self.clipped(task, self.aggregated(task, local), local))
            self.tick(window)
            seen.append(deepcopy(self.values))
        return seen

    accumulate = resume = update

    def windows(self, task, steps):
        """Return the micro-steps of each update: the last window may be shorter, or be dropped."""
        found = [steps[first:first + task.window] for first in range(0, len(steps), task.window)]
        return [w for w in found if len(w) == task.window or self.semantics.partial != "dropped"]

    def first_values(self, task):
        """Return name -> initial value: this rank's, or rank 0's where the manifest says so."""
        return deepcopy(self.world.allgather(task.start)[0] if self.semantics.start == "rank 0" else task.start)

    def first_state(self, task, values):
        """Return name -> the optimizer's arrays before the first update."""
        optimizer = OPTIMIZERS[task.optimizer](**task.options)
        return {name: optimizer.state(array) for name, array in values.items()}

    def accumulated(self, task, window):
        """Return name -> this rank's gradient of a window."""
        divisor = task.loss_scale * self.micro_steps(task, len(window))
        return {v.name: self.added([step[v.name] for step in window], divisor) for v in task.variables}

    def micro_steps(self, task, count):
        """Return what the gradients of a window of ``count`` micro-steps are divided by, beside the loss scale."""
        count = task.window if self.semantics.partial == "applied-by-window" else count
        return count if self.semantics.window == "average" else 1

    def added(self, parts, divisor):
        """Return a variable's gradients of some micro-steps as one: arrays added, rows one after the other."""
        if not isinstance(parts[0], tuple):
            return sum(parts[1:], parts[0]) / divisor
        ids, rows = (np.concatenate(pieces) for pieces in zip(*(self.leaf(*part) for part in parts)))
        return Rows(ids, rows / divisor)

    def aggregated(self, task, local):
        """Return name -> array or Rows, aggregated, on every rank."""
        if task.clip and self.semantics.clip_point == "before":
            local = self.scaled(local, self.scale(task, local, local))
        self.everyone = self.world.allgather(local)
        return {v.name: (self.merge if v.sparse else self.mean)([own[v.name] for own in self.everyone])
                for v in task.variables}

    def clipped(self, task, total, local):
        """Return the aggregated gradient, clipped where the manifest clips it."""
        if not task.clip or self.semantics.clip_point == "before":
            return total
        apart = {name: self.apart([own[name] for own in self.everyone]) for name in total}
        return self.scaled(total, self.scale(task, total, apart))

    def scale(self, task, gradients, apart):
        """Return name -> factor. apart: the same gradients with every occurrence of an id apart."""
        norm = norm_of(apart if self.semantics.clip_norm == "occurrences" else gradients, self.semantics)
        return {name: self.factor(g, task.clip, norm) for name, g in gradients.items()}

    def factor(self, gradient, largest, norm):
        """Return what one variable's gradient is multiplied with."""
        free = self.semantics.clip_norm == "dense" and isinstance(gradient, tuple)
        return 1.0 if free else self.clip_factor(largest, norm)

    def clip_factor(self, largest, norm):
        """Return what a gradient of a norm is multiplied with."""
        return min(1.0, largest / norm) if norm else 1.0

    def scaled(self, gradients, factors):
        """Return gradients, each multiplied with its factor."""
        return {n: Rows(g[0], g[1] * g[1].dtype.type(factors[n])) if isinstance(g, tuple)
                else g * g.dtype.type(factors[n]) for n, g in gradients.items()}

    def apply_all(self, task, total):
        """Update every variable."""
        for v in task.variables:
            self.apply_one(task, v, total[v.name])

    def apply_one(self, task, variable, gradient):
        """Update one variable by its aggregated gradient."""
        p = self.values[variable.name]
        at, g = self.placed(task, gradient, p)
        self.formula(task, variable).apply(p, self.state[variable.name], at, g, self.rate(task, self.updates),
                                           self.clock + 1)

    def placed(self, task, gradient, p):
        """Return (places, array) of a parameter's gradient; all of p where rows that no rank touched are updated."""
        if not isinstance(gradient, tuple):
            return ..., gradient
        if not self.semantics.updates_every_row(task.optimizer):
            return gradient
        whole = np.zeros_like(p)
        whole[gradient[0]] = gradient[1]
        return ..., whole

    def formula(self, task, variable):
        """Return the optimizer of a variable."""
        return OPTIMIZERS[self.semantics.formula(task.optimizer, variable.sparse)](**task.options)

    def rate(self, task, updates):
        """Return the learning rate after so many updates."""
        return task.rate * task.rate_factor**updates

    def tick(self, window):
        """Count an update."""
        self.clock, self.updates = self.clock + 1, self.updates + 1

    def save(self):
        """Return all that training goes on from."""
        return deepcopy({name: getattr(self, name) for name in ("values", "state", "clock", "updates")})

    def load(self, task, saved):
        """Forget everything and go on from what was saved."""
        vars(self).update(saved)
