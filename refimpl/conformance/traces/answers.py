"""A trace as a case of a training in which each microbatch is a rank, so that deviations predict its stages.

Each update begins with the numbers before it in the trace. If the trace lacks them, it begins with predicted ones.
"""

from copy import deepcopy
from dataclasses import dataclass, replace

import numpy as np

from refimpl.conformance.bounds import Expected, finite
from refimpl.conformance.case import Case, CaseVariable, double, numbers_of
from refimpl.conformance.observe import Evidence
from refimpl.conformance.space import contributions
from refimpl.conformance.space.aggregation import Aggregation
from refimpl.conformance.space.deviation import Impossible, Place
from refimpl.conformance.space.training import RankState, TrainingAnswers
from refimpl.conformance.traces.deviations import METRICS, of_given, of_microbatches
from refimpl.conformance.traces.sources import Sources
from refimpl.plain.adding.sums import norm_of

RELATIVE = {"float32": 1e-5, "float64": 1e-12}
"""Tolerance relative to a predicted number: wrong gradients may be large, and so are their rounding errors."""
UPDATE = ("state", "parameters")
OWN = ("carried", "local")
"""Stages of which each microbatch has its own arrays."""
OF_SUMS = {"contribution", "uses", "members", "parts", "combined", "duplicates"}
"""Decisions before a sum. If the sum was right, they explain no wrong update."""


@dataclass(frozen=True)
class TracedPart(CaseVariable):
    """An array of a trace. stage, part: see ``Trace``."""

    stage: str = ""
    part: str = "value"


@dataclass(frozen=True, kw_only=True)
class TracedCase(Case):
    """stage: the first wrong one.  sources, wanted, gradients: see ``expect``."""

    stage: str
    sources: Sources
    wanted: dict
    gradients: dict


def case_of(sources, wanted, gradients, stage, step) -> TracedCase:
    """Return the first wrong stage and step as a case. Local.

    steps: each microbatch's gradients; what is expected of each, if a microbatch's own arrays differ.
    """
    def given(s):
        if stage not in OWN:
            return sources.local(s)
        return [{name: want.value for (*at, name, _), want in wanted.items() if at == [stage, s, m]} or None
                for m in range(sources.microbatches)]

    return TracedCase(f"{sources.theirs.name}/{stage}", "update", "a training", sources.microbatches,
                      sources.variables, tuple(map(given, range(sources.steps))), exact=False,
                      settings={"task": {**sources.how, "resume_after": step or None}, "starts": False}, stage=stage,
                      sources=sources, wanted=wanted, gradients=gradients)


class TraceEvidence(Evidence):
    """The arrays of a trace in the stage of a ``TracedCase``. step: the only one; None: all."""

    def __init__(self, case: TracedCase, step: int | None):
        super().__init__(case, case.sources.semantics, [], [case.wanted])
        stages = UPDATE if case.stage in UPDATE else (case.stage,)
        self.observed = [(place, found) for place in case.wanted if place[0] in stages
                         and step in (None, place[1])
                         and (found := case.sources.handed_in(place)) is not None]

    machine = property(lambda self: TracedAnswers)
    function = property(lambda self: self.case.stage)

    def seen(self):
        known = {v.name: v for v in self.case.variables}
        for place, found in self.observed:
            stage, step, microbatch, name, part = place
            v = known.get(name, CaseVariable(name, numbers_of(found).shape))
            yield (Place(step or 0, microbatch, TracedPart(v.name, v.shape, v.sparse, v.dtype, stage, part)), found,
                   self.case.wanted[place])


class TracedAnswers(TrainingAnswers):
    """The answers to a ``TracedCase``: the arrays of a stage."""

    fields = ("untouched", "adam", "adagrad", "clip_norm", "dense", "sparse", "duplicates", "order")
    remembers, in_pairs = False, frozenset()

    @classmethod
    def alternatives(cls, cases):
        (case,) = cases
        if case.stage == "local":
            return [*of_microbatches(case.ranks), *contributions.deviations(case.ranks)]
        if case.stage in ("start", "carried"):
            return of_given(case.ranks)
        if case.stage == "metrics":
            return METRICS
        if case.stage == "aggregated":
            return super(TrainingAnswers, cls).alternatives(cases)
        every, given = super().alternatives(cases), case.sources.aggregated(case.settings["task"]["resume_after"] or 0)
        every = [d for d in every if d.code != "rate-line"]  # no rate falls in a trace
        return [d for d in every if not OF_SUMS & d.decisions.keys()] if given else every

    def __init__(self, case: TracedCase, semantics, deviations=()):
        super().__init__(case, replace(semantics, clip_point="after"), deviations)
        self._done = {}
        self.statistics = case.sources.statistics
        self.base = None if deviations else self

    def answer(self, place: Place) -> Expected:
        """Return the expected array at a place, whose variable is a ``TracedPart``. Local. Raises Impossible."""
        stage, name, part = place.variable.stage, place.variable.name, place.variable.part
        want = self.case.wanted[stage, None if stage == "start" else place.step, place.rank, name, part]
        value = want.value
        if stage in ("start", *OWN):
            value = self.decide("contribution", value, place)
        elif stage == "metrics":
            value = self.metric(value, place)
        elif stage == "aggregated":
            value = self.delivered(place).value
        elif stage in UPDATE:
            trained = self.trained_until(place.step)
            value = trained.values[name] if part == "value" else trained.state[name][part]
        slack = finite(RELATIVE[want.dtype] * np.abs(numbers_of(value)))  # inf explains no number
        found = replace(want, value=value, tolerance=np.max(want.tolerance, initial=0.0) + slack, canonical=None)
        return self.decide("visible", found, place) if stage == "parameters" else found

    def metric(self, right, place: Place):
        """Return a step's loss, or the norm of its gradient. Local."""
        if place.variable.name == "loss":
            return self.decide("loss", right, place)
        self.clipping = {n: g for n, g in self.case.gradients[place.step].items() if n not in self.statistics}
        return np.asarray(self.decide("norm", norm_of(self.clipping, self.semantics), place))

    @classmethod
    def fitted(cls, observed, machines):
        if observed[0].place.variable.stage in UPDATE:
            return super().fitted(observed, machines)
        return super(TrainingAnswers, cls).fitted(observed, machines) if machines[0].case.stage == "aggregated" else []

    def before(self, place: Place):
        return (self.given_before(place.step, place.variable.name, "value") if place.variable.stage == "parameters"
                else None)

    def start(self, rank) -> dict:
        return {v.name: self.given_before(0, v.name, "value") for v in self.case.variables}

    def active(self, step) -> list[int]:
        return self.case.sources.active(step)

    def given_before(self, step, name, part):
        """Return the trace's array before a step in float64, or our start; None: neither. Local."""
        found = self.case.sources.before(step, name, part)
        return None if found is None else np.array(found, np.float64)

    def total(self, place: Place) -> Expected:
        if self.case.steps[place.step] is None:  # the addends are not known
            return self.known(place)
        return super().total(place)

    def known(self, place) -> Expected:
        """Return the sum of a step in the trace, or the expected one. Local."""
        return Expected(self.case.gradients[place.step][place.variable.name], np.zeros(()), place.variable.dtype)

    def delivered(self, place: Place) -> Expected:
        want = super().delivered(place)
        right = Aggregation.delivered(self.base, place) if self.base not in (None, self) else want
        alike = self.case.stage in UPDATE and np.array_equal(numbers_of(want.value), numbers_of(right.value))
        return self.known(place) if alike else want  # rounded as they did

    def part_of_window(self, place: Place, steps):
        ranks = self.case.steps[place.step]
        if ranks is None or ranks[place.rank] is None:
            raise Impossible
        return double(ranks[place.rank][place.variable.name])

    def after(self, step: int, rank: int = 0) -> tuple[dict, dict]:
        return self.trained_until(step).values, {}

    def trained_until(self, step) -> RankState:
        """Return the state after an update, which begins with the trace's arrays before it. Local."""
        if step not in self._done:
            given = {(name, part): self.given_before(step, name, part) for name, part in self.case.sources.parts}
            begun = self._replica(0)
            if any(array is None for array in given.values()):
                before = self.trained_until(step - 1)
                begun.values, begun.state = dict(before.values), deepcopy(before.state)
            for (name, part), array in given.items():
                if array is not None:
                    (begun.values if part == "value" else begun.state[name])[name if part == "value" else part] = array
            self._update(begun, Place(step, 0))
            self._done[step] = begun
        return self._done[step]

    def _apply(self, replica, gradients, place):
        trained = {n: g for n, g in gradients.items() if n not in self.statistics}
        super()._apply(replica, trained, place)
        for name in gradients.keys() - trained.keys():
            value = replica.values[name]
            replica.values[name] = value + self.case.sources.training["statistic_rate"] * (gradients[name] - value)

    def clip(self, step, rank, gradients, apart=None) -> dict:
        """Clip all but statistics, which the norm does not contain, either."""
        trained, counted = ({n: g for n, g in some.items() if n not in self.statistics}
                            for some in (gradients, apart or gradients))
        return {**gradients, **super().clip(step, rank, trained, counted)}
