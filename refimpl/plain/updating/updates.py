"""A training whose gradients are given, with one method for each decision: accumulate, add up, clip, update, resume.

A rank may compute gradients in several micro-steps before one update; these form a window. For each window: add up this
rank's gradients; add up those of all ranks (``sums``); clip by the norm; update every variable. The manifest of the
conformance suite (``semantics``) says how an implementation makes each decision. To plant a known mistake, the suite
replaces one method of this class.
"""

from copy import deepcopy

import numpy as np

from refimpl.plain.adding.rows import Rows
from refimpl.plain.adding.sums import Sums, norm_of
from refimpl.plain.updating.optimizers_elsewhere import EVERY


class Updates(Sums):
    """One rank's training. world: has rank and allgather.  task: what is trained, see ``refimpl.conformance.case``.

    clock, updates: counts of updates, for the optimizer and for the rate. A known mistake may change one of them.
    """

    world, clock, updates = None, 0, 0

    def update(self, task):
        """Return a list with {name: value of the variable} after each update."""
        self.values = self.first_values(task)
        self.state = self.first_state(task, self.values)
        self.clock, self.updates, seen = 0, 0, []
        for window in self.windows(task, task.steps):
            if self.updates == task.resume_after:  # a checkpoint that is resumed must change nothing
                self.load(task, self.save())
            local = self.accumulated(task, window)
            self.apply_all(task, self.clipped(task, self.aggregated(task, local), local))
            self.tick(window)
            seen.append(deepcopy(self.values))
        return seen

    accumulate = resume = update  # the suite calls the method that a case is named after: all three do the same

    def windows(self, task, steps):
        """Return the micro-steps of each update: the last window may be shorter, or be dropped."""
        found = [steps[first:first + task.window] for first in range(0, len(steps), task.window)]
        return [w for w in found if len(w) == task.window or self.semantics.partial != "dropped"]

    def first_values(self, task):
        """Return {name: initial value}: this rank's, or rank 0's if the manifest says so."""
        return deepcopy(self.world.allgather(task.start)[0] if self.semantics.start == "rank 0" else task.start)

    def first_state(self, task, values):
        """Return {name: the optimizer's arrays before the first update}."""
        optimizer = EVERY[task.optimizer](**task.options)
        return {name: optimizer.state(array) for name, array in values.items()}

    def accumulated(self, task, window):
        """Return {name: this rank's gradient of a window}, divided by the loss scale, a factor in every loss."""
        divisor = task.loss_scale * self.micro_steps(task, len(window))
        return {v.name: self.added([step[v.name] for step in window], divisor) for v in task.variables}

    def micro_steps(self, task, count):
        """Return the number by which the sum of ``count`` micro-steps is divided, besides the loss scale."""
        count = task.window if self.semantics.partial == "applied-by-window" else count
        return count if self.semantics.window == "average" else 1

    def added(self, parts, divisor):
        """Return one gradient of several micro-steps: arrays are added up, rows are put one after the other."""
        if not isinstance(parts[0], tuple):
            return sum(parts[1:], parts[0]) / divisor
        ids, rows = (np.concatenate(pieces) for pieces in zip(*(self.leaf(*part) for part in parts)))
        return Rows(ids, rows / divisor)

    def aggregated(self, task, local):
        """Return {name: array or Rows}, the gradient over all ranks, on every rank."""
        if task.clip and self.semantics.clip_point == "before":
            local = self.scaled(local, self.scale(task, local, local))
        self.everyone = self.world.allgather(local)
        return {v.name: (self.merge if v.sparse else self.mean)([own[v.name] for own in self.everyone])
                for v in task.variables}

    def clipped(self, task, total, local):
        """Return the gradient over all ranks, clipped here unless the manifest clips before the sum."""
        if not task.clip or self.semantics.clip_point == "before":
            return total
        apart = {name: self.apart([own[name] for own in self.everyone]) for name in total}
        return self.scaled(total, self.scale(task, total, apart))

    def scale(self, task, gradients, apart):
        """Return {name: factor}. apart: the same gradients, where rows with the same id are not added up."""
        norm = norm_of(apart if self.semantics.clip_norm == "occurrences" else gradients, self.semantics)
        return {name: self.factor(g, task.clip, norm) for name, g in gradients.items()}

    def factor(self, gradient, largest, norm):
        """Return the factor of one variable's gradient. largest: the norm to which gradients are clipped."""
        free = self.semantics.clip_norm == "dense" and isinstance(gradient, tuple)
        return 1.0 if free else self.clip_factor(largest, norm)

    def clip_factor(self, largest, norm):
        """Return the factor that clips gradients with this norm."""
        return min(1.0, largest / norm) if norm else 1.0

    def scaled(self, gradients, factors):
        """Return the gradients, each multiplied by its factor."""
        return {n: Rows(g[0], g[1] * g[1].dtype.type(factors[n])) if isinstance(g, tuple)
                else g * g.dtype.type(factors[n]) for n, g in gradients.items()}

    def apply_all(self, task, total):
        """Update every variable."""
        for v in task.variables:
            self.apply_one(task, v, total[v.name])

    def apply_one(self, task, variable, gradient):
        """Update one variable by its gradient over all ranks."""
        p = self.values[variable.name]
        at, g = self.placed(task, gradient, p)
        self.formula(task, variable).apply(p, self.state[variable.name], at, g, self.rate(task, self.updates),
                                           self.clock + 1)

    def placed(self, task, gradient, p):
        """Return (places in p, gradient of these places). If rows without a gradient are updated, too: all places."""
        if not isinstance(gradient, tuple):
            return ..., gradient
        if not self.semantics.updates_every_row(task.optimizer):
            return gradient
        whole = np.zeros_like(p)
        whole[gradient[0]] = gradient[1]
        return ..., whole

    def formula(self, task, variable):
        """Return the optimizer of a variable."""
        return EVERY[self.semantics.formula(task.optimizer, variable.sparse)](**task.options)

    def rate(self, task, updates):
        """Return the learning rate after this number of updates."""
        return task.rate * task.rate_factor**updates

    def tick(self, window):
        """Count an update."""
        self.clock, self.updates = self.clock + 1, self.updates + 1

    def save(self):
        """Return everything that the training needs to continue."""
        return deepcopy({name: getattr(self, name) for name in ("values", "state", "clock", "updates")})

    def load(self, task, saved):
        """Replace the state by what ``save`` returned."""
        vars(self).update(saved)
