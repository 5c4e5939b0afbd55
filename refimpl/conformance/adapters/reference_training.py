"""Training in the reference adapter: accumulate, aggregate, clip, update, save and resume."""

from copy import deepcopy

import numpy as np

from refimpl.conformance.case import Rows
from refimpl.conformance.rules.gradients import norm_of, placed
from refimpl.plain.optimizers import OPTIMIZERS


class TrainingPart:
    """What ``Reference`` does with a Task. Each step of it is a method of its own."""

    def update(self, task) -> list[dict]:
        """Return, update by update, name -> value of every variable."""
        self.values = self.first_values(task)
        self.state = self.first_state(task)
        self.clock, self.updates, seen = 0, 0, []
        for window in (task.steps[i:i + task.window] for i in range(0, len(task.steps), task.window)):
            if len(window) < task.window and self.semantics.partial == "dropped":
                break
            if self.updates == task.resume_after:
                self.load(task, self.save())
            local = self.accumulated(task, window)
            self.apply_all(task, self.clipped(task, self.aggregated(task, local), local))
            self.tick(window)
            seen.append(deepcopy(self.values))
        return seen

    accumulate = resume = update

    def first_values(self, task) -> dict:
        """Return name -> initial value: this rank's, or rank 0's where the manifest says so."""
        return deepcopy(self.world.allgather(task.start)[0] if self.semantics.start == "rank 0" else task.start)

    def first_state(self, task) -> dict:
        """Return name -> the optimizer's arrays before the first update."""
        optimizer = OPTIMIZERS[task.optimizer](**task.options)
        return {n: optimizer.state(a) for n, a in self.values.items()}

    def accumulated(self, task, window) -> dict:
        """Return this rank's gradient of a window: arrays added, rows one after the other."""
        count = task.window if self.semantics.partial == "applied-by-window" else len(window)
        divisor = np.float32(task.loss_scale * (count if self.semantics.window == "average" else 1))
        result = {}
        for v in task.variables:
            parts = [step[v.name] for step in window]
            if v.sparse:
                ids, rows = (np.concatenate(pieces) for pieces in zip(*(self.leaf(*part) for part in parts)))
                result[v.name] = ids, rows / divisor
            else:
                result[v.name] = sum(parts[1:], parts[0]) / divisor
        return result

    def aggregated(self, task, local) -> dict:
        """Return name -> array or (ids, rows), aggregated, on every rank."""
        if task.clip and self.semantics.clip_point == "before":
            local = self.scaled(local, self.scale(task, local, local))
        everyone = self.world.allgather(local)
        self.occurrences = everyone
        return {v.name: (self.merge if v.sparse else self.mean)([g[v.name] for g in everyone]) for v in task.variables}

    def clipped(self, task, total, local) -> dict:
        """Return the aggregated gradient, clipped where the manifest clips it."""
        if not task.clip or self.semantics.clip_point == "before":
            return total
        return self.scaled(total, self.scale(task, total, self.unmerged(total)))

    def unmerged(self, total) -> dict:
        """Return the aggregated gradient, every occurrence of an id apart."""
        result = dict(total)
        for name, part in total.items():
            if isinstance(part, tuple):
                parts = [g[name] for g in self.occurrences]
                counts = self.counts(parts)
                ids = np.concatenate([p[0] for p in parts])
                divisor = np.array([counts[k] for k in ids.tolist()], np.float32)[:, None]
                result[name] = ids, np.concatenate([p[1] for p in parts]) / divisor
        return result

    def scale(self, task, gradients, apart) -> dict:
        """Return name -> factor. apart: the same gradients with every occurrence of an id apart."""
        rule = self.semantics.clip_norm
        counted = (apart if rule == "occurrences" else gradients).items()
        norm = norm_of({n: Rows(*g) if isinstance(g, tuple) else g for n, g in counted}, self.semantics)
        factor = self.clip_factor(task.clip, norm)
        return {n: 1.0 if rule == "dense" and isinstance(g, tuple) else factor for n, g in gradients.items()}

    def clip_factor(self, largest, norm) -> float:
        """Return what a gradient of a norm is multiplied with."""
        return min(1.0, largest / norm) if norm else 1.0

    def scaled(self, gradients, factors) -> dict:
        """Return gradients, each multiplied with its factor."""
        return {n: (g[0], g[1] * np.float32(factors[n])) if isinstance(g, tuple) else g * np.float32(factors[n])
                for n, g in gradients.items()}

    def apply_all(self, task, total):
        """Update every variable."""
        for v in task.variables:
            self.apply_one(task, v, total[v.name])

    def apply_one(self, task, variable, gradient):
        """Update one variable by its aggregated gradient."""
        p, part = self.values[variable.name], Rows(*gradient) if variable.sparse else gradient
        at, g = placed(part, p, self.semantics.updates_every_row(task.optimizer))
        optimizer = OPTIMIZERS[self.semantics.formula(task.optimizer, variable.sparse)](**task.options)
        optimizer.apply(p, self.state[variable.name], at, g, self.rate(task), self.clock + 1)

    def rate(self, task) -> float:
        """Return the learning rate of this update."""
        return task.rate * task.rate_factor**self.updates

    def tick(self, window):
        """Count an update."""
        self.clock, self.updates = self.clock + 1, self.updates + 1

    def save(self) -> dict:
        """Return all that training goes on from."""
        return deepcopy({name: getattr(self, name) for name in ("values", "state", "clock", "updates")})

    def load(self, task, saved):
        """Forget everything and go on from what was saved."""
        vars(self).update(saved)
