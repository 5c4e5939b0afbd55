"""Find the deviations that predict the observed numbers.

A deviation, in a scope, explains a case if it predicts every number of the case, right and wrong. A case of the same
function contradicts it if it changes a right number of this case. Of the deviations that no case contradicts, the one
that explains most cases is taken. Then the search goes on with the other cases. If no single deviation explains
anything, two at once are tried.
"""

from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

from refimpl.conformance.diagnose.answers import Answers
from refimpl.conformance.diagnose.features import telling
from refimpl.conformance.space import manifest
from refimpl.conformance.space.aggregation import BY_CONTRIBUTOR, BY_ROW
from refimpl.conformance.space.deviation import (
    Deviation, Machine, Scope, kind_scopes, rank_scopes, row_scopes, scopes, step_scopes)

ALIKE = 2
"""The report names at most so many other deviations that explain the same cases."""


@dataclass
class Explanation:
    """An explanation of some cases. deviations: one, or two.  scope: where they apply.  explained: of each case.

    when: the only cases in which they apply, in words; "": all.  alike: other deviations that explain the same cases.
    """

    deviations: tuple[Deviation, ...]
    scope: Scope
    explained: list[Answers]
    when: str = ""
    alike: list[tuple[Deviation, ...]] = field(default_factory=list)


def tried(machine: type[Machine], semantics, cases) -> list[Deviation]:
    """Return the deviations that are tried on some cases, the most frequent first. Local."""
    return [*manifest.deviations(semantics, machine.fields), *machine.alternatives(cases)]


def search(evidences) -> tuple[list[Explanation], list[Answers]]:
    """Return the explanations, and the answers without one. Local.

    evidences: of all cases, also of those that passed.
    """
    found, unexplained = [], []
    for machine in dict.fromkeys(e.machine for e in evidences):
        memos, within = {}, cache(Deviation.within)  # a deviation in a scope is made once, so that caches know it
        ours = [Answers(e, memos) for e in evidences if e.machine is machine and e.observed]
        left = [a for a in ours if a.wrong]
        singles = tried(machine, left[0].evidence.semantics, [a.case for a in left]) if left else []
        while left:
            best = None
            for trials, in_some, late in _trials(machine, singles, left, within):
                if late and best:
                    break
                best = _best(trials, left, ours, in_some, best) or best
            if best is None:
                break
            found.append(best)
            left = [a for a in left if a not in best.explained]
        unexplained += left
    return found, unexplained


def _trials(machine, singles, left, within):
    """Yield (what is tried, whether it may show in some cases alone, whether only if nothing else explains anything).

    These are tried in turn: each deviation; each on some of the contributing ranks; each in rows that several ranks
    push, or one rank; each in cases with a common feature; each from the first wrong step on, or in this step alone;
    each on one kind of variable, inside the run; last, two deviations of different decisions or rules: these are many.
    """
    yield [(d,) for d in singles], False, False
    yield [(d,) for d in machine.fitted([a.wrong[0] for a in left], [a.base for a in left])], False, False
    ranks = rank_scopes([a.case for a in left])
    yield [(within(d, s),) for d in singles if BY_CONTRIBUTOR & set(d.decisions) for s in ranks], False, False
    by_row = [d for d in singles if BY_ROW & set(d.decisions)]
    shared = {answers.shared for answers in left} if by_row else ()
    yield [(within(d, s),) for d in by_row for s in row_scopes() if s.shared in shared], False, False
    yield [(d,) for d in singles], True, False
    if machine.remembers:
        begun = (trial for answers in left for trial in _from_first_wrong(answers, singles, within))
        yield list(dict.fromkeys(begun)), True, True
        yield [(within(d, s),) for d in singles for s in kind_scopes([a.case for a in left])], False, True
    several = [d for d in singles if d.rules or d.paired and machine.in_pairs & d.decisions.keys()]
    pairs = dict.fromkeys(pair for answers in left for pair in combinations(filter(answers.moved_by, several), 2))
    yield [(a, b) for a, b in pairs if not {*a.rules, *a.decisions} & {*b.rules, *b.decisions}], False, True


def _from_first_wrong(answers, singles, within):
    """Yield deviations that predict the first wrong answer if they begin in its step."""
    since, alone = step_scopes(answers.wrong[0].place.step)
    for d in singles:
        trial = (within(d, since) if since.first_step else d,)
        if d.decisions and answers.begins(trial):
            yield trial
            yield (within(d, alone),)


def _best(trials, left, ours, in_some: bool, before: Explanation | None) -> Explanation | None:
    """Return the trial, in its widest scope, that explains most answers and that no answer contradicts.

    in_some: cases may contradict it if they lack a feature of all that it explains.  before: it must explain more.
    Trials that explain the first answer are tried first: one of them may explain all.
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
            return best  # another rule of the manifest, everywhere: no explanation is simpler
    return best


def _agreeing(trial, left, enough: int) -> list:
    """Return (answers, which of them agree) for all that a trial may explain; [] if they cannot be enough."""
    found = []
    for i, answers in enumerate(left):
        if len(found) + len(left) - i < enough:
            return []
        if (agrees := answers.agreeing(trial)) is not None:
            found.append((answers, agrees))
    return found


def _condition(trial, scope, explained, ours, in_some: bool) -> str | None:
    """Return the only cases in which a trial shows, in words; "": all; None: other answers contradict it."""
    others = [a for a in ours if a.function in {x.function for x in explained} and a not in explained]
    if not in_some:
        return None if any(a.contradicts(trial, scope) for a in others) else ""
    against = [a.case for a in others if a.contradicts(trial, scope)]
    told = telling([a.case for a in explained], against) if against else None
    return told[1] if told else None if against else ""


def _within(answers, agreeing, scope) -> bool:
    """Return whether all wrong answers lie within a scope, and all answers within it agree."""
    return all(found if scope.hits(one.place) else one.right for one, found in zip(answers.seen, agreeing))
