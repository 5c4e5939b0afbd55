"""Find the smallest deviation that gives the observed numbers: in every case that it explains, and in no other.

A deviation, in a scope, explains a case if it gives every number of it, of what is wrong and of what is right. It is
contradicted by a case of the same function in which a number is right that it has otherwise. Of those that nothing
contradicts the one that explains most cases is taken, then the next among the rest; where no single one explains
anything, two at once.
"""

from dataclasses import dataclass, field, replace
from functools import cache
from itertools import combinations

import numpy as np

from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.compare import aligned, differences, right
from refimpl.conformance.diagnose.features import telling
from refimpl.conformance.observe import Evidence
from refimpl.conformance.rules.aggregate import Expected
from refimpl.conformance.space import manifest
from refimpl.conformance.space.aggregation import BY_CONTRIBUTOR
from refimpl.conformance.space.deliveries import OnGrid
from refimpl.conformance.space.deviation import (
    Deviation, Impossible, Machine, Place, Scope, rank_scopes, scopes, step_scopes,
)

OF_ROUNDING = {"order=any"}
"""Deviations that may explain answers which are right but for rounding."""
NOTHING = Deviation("", "")
"""No deviation, but judged with the tolerance of one."""
ALIKE = 2
"""So many other deviations are told that explain the same."""


@dataclass
class Observed:
    """One answer: of one variable, on one rank (None: of all owners), after one step."""

    place: Place
    value: object
    wanted: Expected
    right: bool


class Answers:
    """All answers to one case, and which of them are right.

    before: the right ones of the variable and rank of the first wrong one, up to it: what deviates sooner, and is not
    forgotten, explains nothing.  begun: deviations that give these and the first wrong one.
    """

    def __init__(self, evidence: Evidence):
        self.evidence, self.case = evidence, evidence.case
        self.function = evidence.function
        self.seen = [Observed(place, value, want, right(value, want)) for place, value, want in evidence.seen()]
        self.wrong = [one for one in self.seen if not one.right]
        self.before = [one for one in self.seen if one.right and self.wrong and evidence.machine.remembers
                       and replace(one.place, step=self.wrong[0].place.step) == self.wrong[0].place]
        self._agreeing, self._otherwise, self._base, self.begun = {}, {}, None, set()
        self.moved_by, self.steps_given = cache(self.moved_by), cache(self.steps_given)  # as long as these answers live
        self.rounded = self._agree((NOTHING,)) is not None and bool(self.wrong)
        self.blank = all(map(_blank, self.wrong))

    def agreeing(self, deviations) -> list[bool] | None:
        """Return for each answer whether a machine with these deviations gives it; None unless it gives all wrong ones.

        If the wrong answers differ only by rounding, only deviations of rounding may explain them; nothing explains
        what is NaN wherever it is wrong: too much gives that.
        """
        deviations = tuple(d for d in deviations if d.concerns(self.case))
        if not deviations or self.blank:
            return None
        if self.rounded and not {d.code for d in deviations} <= OF_ROUNDING:
            return None
        if deviations not in self._agreeing:
            self._agreeing[deviations] = self._agree(deviations)
        return self._agreeing[deviations]

    def _agree(self, deviations) -> list[bool] | None:
        machine = self._machine(deviations)
        if not all(_agrees(one, machine) for one in (*self.wrong[:1], *self.before)):
            return None
        self.begun.add(deviations)
        if not all(_agrees(one, machine) for one in self.wrong[1:]):
            return None
        return [not one.right or _agrees(one, machine) for one in self.seen]

    def moved_by(self, deviation) -> bool:
        """Return whether a deviation changes a wrong answer at all: else it is no part of what explains them. Local."""
        if not deviation.concerns(self.case):
            return False
        machine = self._machine((deviation,))
        return not all(_agrees(replace(one, value=self._base.answer(one.place).value, right=True), machine)
                       for one in self.wrong)

    def steps_given(self, deviations) -> int:
        """Return in how many steps a machine with these deviations gives every answer."""
        machine, steps = self._machine(deviations), {one.place.step for one in self.seen}
        return len(steps - {one.place.step for one in self.seen if not _agrees(one, machine)})

    def contradicts(self, deviations, scope: Scope) -> bool:
        """Return whether a right answer is otherwise to a machine that deviates so, within a scope."""
        deviations = tuple(d for d in deviations if d.concerns(self.case))
        if not deviations:
            return False
        if deviations not in self._otherwise:
            machine = self._machine(deviations)
            self._otherwise[deviations] = [one.right and not _agrees(one, machine) for one in self.seen]
        pairs = zip(self.seen, self._otherwise[deviations])
        return any(otherwise and scope.hits(one.place) for one, otherwise in pairs)

    @property
    def base(self) -> Machine:
        """The machine that deviates in nothing."""
        return self._base

    def _machine(self, deviations):
        machine = self.evidence.machine(self.case, self.evidence.semantics, deviations)
        machine.base = self._base = self._base or machine
        return machine


def _blank(one: Observed) -> bool:
    """Return whether an answer is NaN wherever it is wrong."""
    _, _, bad, ids = differences(one.value, one.wanted)
    return bool(np.isnan(np.asarray(aligned(one.value, ids), np.float64)[bad]).all())


def _agrees(one: Observed, machine) -> bool:
    """Return whether a machine gives an answer; one that has nothing to deviate in gives the right one."""
    try:
        want = machine.answer(one.place)
    except Impossible:
        return one.right
    rows = isinstance(one.value, Rows)
    if numbers_of(one.value).shape[rows:] != numbers_of(want.value).shape[rows:]:
        return False
    if isinstance(want, OnGrid) and not np.array_equal(numbers := numbers_of(one.value), want.cast(numbers)):
        return False
    return right(one.value, want)


@dataclass
class Explanation:
    """deviations: one, or two.  scope: what they hit.  explained: the answers that they give, case by case.

    when: in which cases alone, in words; "": in all.  alike: other deviations that explain the same, which these cases
    cannot tell from it.
    """

    deviations: tuple[Deviation, ...]
    scope: Scope
    explained: list[Answers]
    when: str = ""
    alike: list[tuple[Deviation, ...]] = field(default_factory=list)


def tried(machine: type[Machine], semantics, cases) -> list[Deviation]:
    """Return the deviations that are tried on some cases, the commonest first. Local."""
    return [*manifest.deviations(semantics, machine.fields), *machine.alternatives(cases)]


def search(evidences) -> tuple[list[Explanation], list[Answers]]:
    """Return the fits that together explain most, and what none explains. Local.

    evidences: of all cases, of those that passed too.
    """
    found, unexplained = [], []
    for machine in dict.fromkeys(e.machine for e in evidences):
        ours = [Answers(e) for e in evidences if e.machine is machine and e.observed]
        left = [a for a in ours if a.wrong]
        while left:
            best = None
            for trials, in_some, late in _trials(left):
                if late and best:
                    break
                best = _best(trials, left, ours, in_some, best) or best
            if best is None:
                break
            found.append(best)
            left = [a for a in left if a not in best.explained]
        unexplained += left
    return found, unexplained


def _trials(left):
    """Yield (what is tried, whether it may show in some cases alone, whether only if nothing else explains anything).

    Each deviation; each on some ranks that contribute; each in cases that have something in common; each in the step
    alone in which wrong answers begin, or from it on; two at once, which are many.
    """
    semantics, machine, cases = left[0].evidence.semantics, left[0].evidence.machine, [a.case for a in left]
    singles = tried(machine, semantics, cases)
    yield [(d,) for d in singles], False, False
    yield [(d,) for d in machine.fitted([a.wrong[0] for a in left], [a.base for a in left])], False, False
    ranks = rank_scopes(cases)
    yield [(d.within(s),) for d in singles if BY_CONTRIBUTOR & set(d.decisions) for s in ranks], False, False
    yield [(d,) for d in singles], True, False
    if machine.remembers:
        yield list(dict.fromkeys(t for answers in left for t in _from_first_wrong(answers, singles))), True, True
    several = [d for d in singles if d.rules or d.decision in machine.in_pairs]
    pairs = dict.fromkeys(pair for answers in left for pair in combinations(filter(answers.moved_by, several), 2))
    yield [(a, b) for a, b in pairs if not a.rules.keys() & b.rules.keys()], False, True


def _from_first_wrong(answers, singles):
    """Yield what gives the first wrong answer by deviating from its step on, or in that step alone."""
    since, alone = step_scopes(answers.wrong[0].place.step)
    for d in singles:
        trial = (d.within(since) if since.first_step else d,)
        answers.agreeing(trial)
        if d.decisions and trial in answers.begun:
            yield trial
            yield (d.within(alone),)


def _best(trials, left, ours, in_some: bool, before: Explanation | None) -> Explanation | None:
    """Return the trial, in its widest scope, that explains most answers and that none contradicts.

    in_some: answers may contradict it to cases that lack what all that it explains have.  before: more than this one.
    What explains all that is left explains the first of it: such trials alone are looked at first.
    """
    if len(left) > 1:
        first = _best_of([t for t in trials if left[0].agreeing(t) is not None], left, ours, in_some, before)
        if first and len(first.explained) == len(left):
            return first
    return _best_of(trials, left, ours, in_some, before)


def _best_of(trials, left, ours, in_some: bool, before: Explanation | None) -> Explanation | None:
    best, widest = None, [Scope(), *scopes([a.case for a in ours])]
    least = len(before.explained) + 1 if before else 1
    for trial in trials:
        enough = len(best.explained) if best else least
        agreeing = _agreeing(trial, left, enough)
        for scope in widest if len(agreeing) >= enough else ():
            explained = [a for a, found in agreeing if _within(a, found, scope)]
            if len(explained) < enough:
                continue
            when = _condition(trial, scope, explained, ours, in_some)
            if when is None:
                continue
            fit = Explanation(trial, scope, explained, when)
            if best and explained == best.explained:
                if scope.words or not best.scope.words:  # the wider is taken
                    best.alike.append(trial)
                    break
                fit.alike = [best.deviations, *best.alike]
            best = fit if not best or len(explained) > len(best.explained) or fit.alike else best
            break
        if (len(ours) > 1 and best and len(best.explained) == len(left) and any(d.rules for d in best.deviations)
                and not best.scope.words):
            return best  # another rule of the manifest, everywhere: nothing is said more plainly
    return best


def _agreeing(trial, left, enough: int) -> list:
    """Return (answers, which of them agree) of all answers that a trial may explain; [] if they cannot be enough."""
    found = []
    for i, answers in enumerate(left):
        if len(found) + len(left) - i < enough:
            return []
        if (agrees := answers.agreeing(trial)) is not None:
            found.append((answers, agrees))
    return found


def _condition(trial, scope, explained, ours, in_some: bool) -> str | None:
    """Return in which cases alone a trial shows, in words; "": in all; None: other answers contradict it."""
    others = [a for a in ours if a.function in {x.function for x in explained} and a not in explained]
    if not in_some:
        return None if any(a.contradicts(trial, scope) for a in others) else ""
    against = [a.case for a in others if a.contradicts(trial, scope)]
    told = telling([a.case for a in explained], against) if against else None
    return told[1] if told else None if against else ""


def _within(answers, agreeing, scope) -> bool:
    """Return whether all that is wrong lies within a scope, and all within it agrees."""
    return all(found if scope.hits(one.place) else one.right for one, found in zip(answers.seen, agreeing))
