"""All answers to a case, and which of them a deviation predicts, changes or contradicts."""

from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.compare import aligned, differences, right
from refimpl.conformance.observe import Evidence
from refimpl.conformance.space.deliveries import OnGrid
from refimpl.conformance.space.deviation import Deviation, Impossible, Machine, Place, Scope

OF_ROUNDING = {"order=any"}
"""Deviations that may explain answers in which only the rounding is wrong."""
NOTHING = Deviation("", "")
"""No deviation, but with the tolerance of a deviation."""


@dataclass
class Observed:
    """One answer: one variable on one rank (None: of all owners) after one step."""

    place: Place
    value: object
    wanted: Expected
    right: bool


class Answers:
    """All answers to one case, and which of them are right.

    before: the right answers before the first wrong one, of the same variable and rank. A deviation that changes them
    explains nothing.  memos: inputs of a machine -> its memo, which other cases use, too.
    """

    def __init__(self, evidence: Evidence, memos: dict | None = None):
        self.evidence, self.case, self.function = evidence, evidence.case, evidence.function
        self.seen = [Observed(place, value, want, right(value, want)) for place, value, want in evidence.seen()]
        self.wrong = [one for one in self.seen if not one.right]
        self.before = [one for one in self.seen if one.right and self.wrong and evidence.machine.remembers
                       and replace(one.place, step=self.wrong[0].place.step) == self.wrong[0].place]
        self.base: Machine | None = None
        self.base = self._machine((NOTHING,))
        self.base.memo = ({} if memos is None else memos).setdefault(self.base.inputs, self.base.memo)
        self.rounded = bool(self.wrong) and all(_agrees(one, self.base) for one in self.wrong)
        self.blank = all(map(_blank, self.wrong))
        for known in ("concerns", "_agreeing", "_otherwise", "moved_by", "steps_given"):
            setattr(self, known, cache(getattr(self, known)))  # the cache lives as long as these answers
        self._machine = lru_cache(2)(self._machine)

    def concerns(self, deviation) -> bool:
        """Return whether a deviation can change the case. Local."""
        return deviation.concerns(self.case)

    @cached_property
    def were_right(self) -> list[Observed]:
        """The wrong answers, with the right values."""
        return [replace(one, value=self.base.answer(one.place).value, right=True) for one in self.wrong]

    @property
    def shared(self) -> bool | None:
        """Which rows of the first wrong answer are wrong: only some that several ranks push (True), or only some that
        one rank pushes (False). None: neither, or all rows are of one kind.
        """
        one = self.wrong[0]
        try:
            known, ranks = self.base.pushed(one.place)
        except Impossible:  # a dense gradient, or a trace without this gradient
            return None
        _, _, bad, ids = differences(one.value, one.wanted)
        wrong = np.flatnonzero(bad.any(axis=1)) if ids is None else ids[bad.any(axis=1)]
        return next((several for several in (True, False) if np.isin(wrong, known[(ranks > 1) == several]).all()
                     and ((ranks > 1) != several).any()), None)

    def begins(self, deviations) -> bool:
        """Return whether these deviations predict the first wrong answer and those in ``before``."""
        return self._agreeing(tuple(filter(self.concerns, deviations))) is not None

    def agreeing(self, deviations) -> list[bool] | None:
        """Return for each answer whether these deviations predict it; None if they miss a wrong one.

        If only the rounding is wrong, only deviations of rounding may explain it. If every wrong number is NaN, nothing
        explains it, because too many deviations predict NaN.
        """
        return self._agreeing(tuple(filter(self.concerns, deviations))) or None

    def _agreeing(self, deviations) -> list[bool] | None:
        """Return None unless it ``begins``, [] unless it predicts all wrong answers."""
        if not deviations or self.blank or self.rounded and not {d.code for d in deviations} <= OF_ROUNDING:
            return None
        machine = self._machine(deviations)
        if not all(_agrees(one, machine) for one in (self.wrong[0], *self.before)):
            return None
        if not all(_agrees(one, machine) for one in self.wrong[1:]):
            return []
        return [not one.right or _agrees(one, machine) for one in self.seen]

    def moved_by(self, deviation) -> bool:
        """Return whether a deviation changes any wrong answer; otherwise it is no part of an explanation. Local."""
        if not self.concerns(deviation):
            return False
        machine = self._machine((deviation,))
        return not all(_agrees(one, machine) for one in self.were_right)

    def steps_given(self, deviations) -> int:
        """Return the number of steps in which these deviations predict every answer."""
        machine, steps = self._machine(deviations), {one.place.step for one in self.seen}
        return len(steps - {one.place.step for one in self.seen if not _agrees(one, machine)})

    def contradicts(self, deviations, scope: Scope) -> bool:
        """Return whether these deviations change a right answer within a scope."""
        return any(map(scope.hits, self._otherwise(tuple(filter(self.concerns, deviations)))))

    def _otherwise(self, deviations) -> list[Place]:
        machine = deviations and self._machine(deviations)
        return [one.place for one in self.seen if machine and one.right and not _agrees(one, machine)]

    def _machine(self, deviations) -> Machine:
        machine = self.evidence.machine(self.case, self.evidence.semantics, deviations)
        machine.base = self.base or machine
        return machine


def _blank(one: Observed) -> bool:
    """Return whether an answer is NaN wherever it is wrong."""
    _, _, bad, ids = differences(one.value, one.wanted)
    return bool(np.isnan(np.asarray(aligned(one.value, ids), np.float64)[bad]).all())


def _agrees(one: Observed, machine) -> bool:
    """Return whether a machine predicts an answer. If its deviation cannot be applied, it predicts the right one."""
    try:
        return _fits(one, machine.answer(one.place))
    except Impossible:
        return one.right


def _fits(one: Observed, want: Expected) -> bool:
    rows = isinstance(one.value, Rows)
    if numbers_of(one.value).shape[rows:] != numbers_of(want.value).shape[rows:]:
        return False
    if isinstance(want, OnGrid) and not np.array_equal(numbers := numbers_of(one.value), want.cast(numbers)):
        return False
    return right(one.value, want)
