"""The values of a training on given gradients, in float64, with its decisions.

start         a rank's initial values
accumulated   one variable's gradients of a window's micro-steps
loss scale    their divisor that removes the loss scale
micro-steps   their divisor that averages a window
...           the decisions of ``aggregation``: the window of an update is a step there
norm          the norm for clipping;  scale: the factor of a variable's gradient
clipped       all variables' gradients after clipping
updates       the gradients that are applied, one after the other; only one if nothing is wrong
rate          the learning rate
clock, ticks  the number of updates before this one: for the optimizer, and for the rate
mu, ...       each number of the optimizer
formula       the optimizer, of ``refimpl.plain.updating.optimizers``
before        a rank's values before an update;  restored variable: one variable's (value, state) after resuming
visible       a variable's value, as the rank reads it after an update
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from refimpl.conformance.bounds import Expected, finite, of_updates
from refimpl.conformance.case import Case, Task, double, with_numbers
from refimpl.conformance.cases.training import start_of
from refimpl.conformance.space import optimizers, updates
from refimpl.conformance.space.aggregation import Aggregation, factor_of
from refimpl.conformance.space.deviation import Deviation, Impossible, Place
from refimpl.plain.adding.rows import merge_occurrences
from refimpl.plain.adding.sums import norm_of
from refimpl.plain.updating.updates import Updates


@dataclass
class RankState:
    """The state of one rank: values, the sum of each value's changes (its travel), the optimizer's arrays."""

    values: dict
    travel: dict
    state: dict


class TrainingAnswers(Aggregation):
    """The answers to a case of stage update: each variable on each rank after each update."""

    fields = ("untouched", "adam", "adagrad", "clip_norm", "clip_point", "window", "partial", "dense", "sparse",
              "duplicates")

    @property
    def clips_before(self) -> bool:
        """Whether each rank clips its own gradient, before they are added."""
        return self.task.clip is not None and self.semantics.clip_point == "before"

    @classmethod
    def alternatives(cls, cases):
        ranks = max(case.ranks for case in cases)
        return [*updates.AROUND, *super().alternatives(cases), *updates.deviations(ranks), *optimizers.deviations()]

    @classmethod
    def fitted(cls, observed, machines):
        """Return learning rates that are multiplied by some number. Local."""
        factors = set()
        for one, machine in zip(observed, machines):
            before = machine.before(one.place)
            if before is not None:
                k = factor_of(one.value - before, replace(one.wanted, value=one.wanted.value - before))
                factors |= {float(f"{k:.4g}")} if k else set()
        return [Deviation("rate", f"the learning rate is {k:g} times as large", {
            "rate": lambda right, m, p, k=k: right * k}) for k in sorted(factors)]

    def before(self, place: Place):
        """Return the value of a variable before an update; None if it is not known. Local."""
        return (self.after(place.step - 1)[0] if place.step else self.start(0))[place.variable.name]

    def __init__(self, case: Case, semantics, deviations=()):
        self.task = Task(case.variables, {}, steps=[], **case.settings["task"])
        super().__init__(case, semantics, deviations)
        self.plain = Updates(self.semantics, len(self.group))
        self.windows = self.plain.windows(self.task, range(len(case.steps)))
        self._ranks, self._kept, self._sums, self.clipping, self.norm = {}, {}, {}, {}, 0.0

    meeting, bounded, remembers = "add", False, True
    """Rows with the same id were added in each micro-step, so those of a window are added, too."""

    @property
    def steps(self) -> int:
        """The number of updates."""
        return len(self.windows)

    def answer(self, place: Place) -> Expected:
        """Return a variable on a rank after an update. Local."""
        if place.step >= self.steps:  # the deviation drops this window
            return Expected(np.full(place.variable.shape, np.nan), np.zeros(place.variable.shape), place.variable.dtype)
        value, travel = self.after(place.step, place.rank)
        name, dtype = place.variable.name, place.variable.dtype
        tolerance = of_updates(place.step + 1, travel[name], dtype)
        if self.deviations:  # they may make numbers much larger
            tolerance = np.maximum(tolerance, 256 * float(np.finfo(dtype).eps) * np.abs(value[name]))
        want = Expected(value[name], finite(tolerance), dtype)
        return self.decide("visible", want, place)

    def after(self, step: int, rank: int = 0) -> tuple[dict, dict]:
        """Return (values, travel) of a rank after an update. Local."""
        if rank not in self._ranks:
            self._ranks[rank] = self._replica(rank), []
        replica, history = self._ranks[rank]
        while len(history) <= step:
            self._update(replica, Place(len(history), rank))
            history.append((dict(replica.values), dict(replica.travel)))
        return history[step]

    def start(self, rank) -> dict:
        """Return name -> the value that a rank is given before the first update. Local."""
        return start_of(self.case, rank)

    def active(self, step) -> list[int]:
        """Return the ranks that have gradients in an update. Local."""
        return self.group

    def _replica(self, rank) -> RankState:
        right = self.start(0)
        values = {v.name: self.decide("start", right[v.name], Place(0, rank, v)).astype(np.float64)
                  for v in self.case.variables}
        return RankState(values, {n: np.abs(a) for n, a in values.items()}, self.plain.first_state(self.task, values))

    def _update(self, replica, place):
        if place.shared is not None or all(d.scope.shared is None for d in self.deviations):
            self._update_alike(replica, place)
            return
        each = {shared: deepcopy(replica) for shared in (True, False)}
        for shared, one in each.items():  # rows that several ranks push, and the others
            self._update_alike(one, replace(place, shared=shared))
        self._update_alike(replica, place)
        for v in (v for v in self.case.variables if v.sparse):
            ids, ranks = self.pushed(replace(place, variable=v))
            several = np.isin(np.arange(v.shape[0]), ids[ranks > 1])[:, None]

            def chosen(part):
                return np.where(several, *(part(one) for one in each.values()))

            replica.values[v.name] = chosen(lambda one: one.values[v.name])
            replica.travel[v.name] = chosen(lambda one: one.travel[v.name])
            replica.state[v.name] = {s: chosen(lambda one: one.state[v.name][s]) for s in replica.state[v.name]}

    def _update_alike(self, replica, place):
        todo = self.decide("updates", [self.clipped(place.step, place.rank)], place)
        for v in self.case.variables if place.step == self.task.resume_after else ():
            kept = replica.values[v.name], replica.state[v.name]
            replica.values[v.name], replica.state[v.name] = self.decide("restored variable", kept,
                                                                        replace(place, variable=v))
        if place.step:
            replica.values = self.decide("before", replica.values, place)
        for gradients in todo:
            self._apply(replica, gradients, place)

    def _apply(self, replica, gradients, place):
        for name, gradient in gradients.items():
            at = replace(place, variable=self.case.variable(name))
            before = replica.values[name]
            replica.values[name] = after = before.copy()
            places, g = self.plain.placed(self.task, gradient, before)
            task = replace(self.task, options={n: self.decide(n, x, at) for n, x in self.task.options.items()})
            optimizer = self.decide("formula", self.plain.formula(task, at.variable), at)
            rate = self.plain.rate(self.task, self.decide("ticks", place.step, at))
            try:
                optimizer.apply(after, replica.state[name], places, g.copy(),  # a wrong formula may write to it
                                self.decide("rate", rate, at), self.decide("clock", place.step, at) + 1)
            except (ArithmeticError, TypeError, ValueError):  # a root of a negative number, a division by 0
                raise Impossible from None
            replica.travel[name] = replica.travel[name] + np.abs(after - before)

    def given(self, place: Place):
        """Return a rank's gradient of a window without the loss scale: an array, or rows with repeats. Local."""
        if place not in self._kept:
            self._kept[place] = self.part_of_window(place, self.windows[place.step])
        return self._kept[place]

    def of_window(self, place: Place, steps) -> Expected:
        """Return the aggregate of some micro-steps of an update's window. Local."""
        return self.added([self.part_of_window(Place(place.step, r, place.variable), steps) for r in self.group], place)

    def part_of_window(self, place: Place, steps):
        """Return a rank's gradient of some micro-steps, with the divisor of the whole window. Local."""
        window, name = self.windows[place.step], place.variable.name
        parts = [self.case.steps[s][place.rank][name] for s in steps]
        parts = [double(p) for p in self.decide("accumulated", parts, place)]
        loss_scale = self.decide("loss scale", self.task.loss_scale, place)
        count = self.decide("micro-steps", self.plain.micro_steps(self.task, len(window)), place)
        return self.plain.added(parts, loss_scale * count)

    def order(self, place: Place) -> list[str]:
        return [v.name for v in self.case.variables]

    def local(self, step, rank) -> dict:
        """Return name -> a rank's own gradient of a window. Local."""
        return {v.name: self.given(Place(step, rank, v)) for v in self.case.variables}

    def merged(self, step, rank, divisor=1) -> dict:
        """Return the same, divided, the rows that share an id added. Local."""
        return {name: merge_occurrences(g, divisor) for name, g in self.local(step, rank).items()}

    def contribution(self, place: Place):
        """Return what a rank puts into the sum: clipped, where each rank clips its own. Local."""
        part = self.decide("contribution", self.given(place), place)
        if self.task.clip is None or self.semantics.clip_point == "after":
            return part
        local = self.local(place.step, place.rank)
        factor = self.factor(local, norm_of(local, self.semantics), place)
        return with_numbers(part, lambda x: x * factor)

    def aggregated(self, step, rank) -> dict:
        """Return name -> the sum that a rank gets. Local. Raises Impossible for rows that do not exist."""
        if (step, rank) not in self._sums:
            found = {v.name: self.delivered(Place(step, rank, v)).value for v in self.case.variables}
            if any(found[v.name].ids.max(initial=0) >= v.shape[0] for v in self.case.variables if v.sparse):
                raise Impossible
            self._sums[step, rank] = found
        return self._sums[step, rank]

    @property
    def inputs(self):
        """Trainings on the same gradients have the same sums, with any optimizer."""
        return super().inputs if self.clips_before else (id(self.case.steps), self.task.loss_scale, self.task.window)

    def clipped(self, step, rank) -> dict:
        """Return name -> the gradient that a rank applies. Local."""
        total = self.aggregated(step, rank)
        if self.task.clip is None or self.semantics.clip_point == "before":
            return total
        apart = self.apart(step) if self.semantics.clip_norm == "occurrences" else total
        return self.decide("clipped", self.clip(step, rank, total, apart), Place(step, rank))

    def clip(self, step, rank, gradients, apart=None) -> dict:
        """Return name -> gradient, clipped if the task clips. apart: the gradients of the norm; None: the same. Local.
        """
        if self.task.clip is None:
            return gradients
        norm = norm_of(apart or gradients, self.semantics)
        return self.plain.scaled(gradients, {n: self.factor(apart or gradients, norm, Place(
            step, rank, self.case.variable(n))) for n in gradients})

    def factor(self, apart, norm, place) -> float:
        """Return the clipping factor of a variable. apart: the gradients of the norm, kept as ``clipping``. Local."""
        self.clipping = apart
        self.norm = norm = self.decide("norm", norm, place)
        return self.decide("scale", self.plain.factor(apart[place.variable.name], self.task.clip, norm), place)

    def apart(self, step) -> dict:
        """Return name -> sum of arrays, or all occurrences of rows, divided as the manifest says. Local."""
        return {v.name: self.plain.apart([self.contribution(Place(step, r, v)) for r in self.group])
                for v in self.case.variables}
