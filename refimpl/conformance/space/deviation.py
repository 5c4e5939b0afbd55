"""A deviation: one wrong decision, with the variables, ranks, steps and rows in which it is wrong."""

import re
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isfunction, signature
from math import prod
from typing import Any, Callable

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Rows, numbers_of
from refimpl.conformance.words import ordinal, ranks_in_words
from refimpl.plain.adding.rows import merge_occurrences


def anywhere(case: Case) -> bool:
    """Return that a deviation may show in any case. Local."""
    return True


def parametrised(change: Callable) -> Callable:
    """Return a function of the parameters of ``change``; it returns a change(right, machine, place). Local."""
    return partial(partial, change)


class Impossible(Exception):
    """A deviation cannot be applied, at this place or in the whole case."""


def concatenated(parts):
    """Return one gradient of several: arrays are added, rows are put one after the other. Local."""
    if not parts:
        raise Impossible
    if isinstance(parts[0], Rows):
        return Rows(np.concatenate([p.ids for p in parts]), np.concatenate([p.rows for p in parts]))
    return sum(parts[1:], parts[0])


def joined(parts):
    """Return the sum of gradients of one variable. Local."""
    return merge_occurrences(concatenated(parts))


@dataclass(frozen=True)
class Place:
    """Where a decision is taken. rank: of the rank that takes it; None: of all owners together.

    shared: True: for rows that several ranks push; False: for the other rows; None: for all rows together.
    """

    step: int
    rank: int | None
    variable: CaseVariable | None = None
    shared: bool | None = None


@dataclass(frozen=True)
class Scope:
    """Where a decision is wrong; None: everywhere.  words: for the report, as "of row gradients alone".

    shared: True: only for rows that several ranks push; False: only for rows that one rank pushes.
    """

    variables: Callable[[CaseVariable], bool] | None = None
    ranks: tuple[int, ...] | None = None
    first_step: int = 0
    last_step: int | None = None
    words: str = ""
    shared: bool | None = None

    def hits(self, place: Place) -> bool:
        """Return whether the decision at a place is wrong."""
        return ((self.variables is None or place.variable is not None and self.variables(place.variable))
                and (self.ranks is None or place.rank in self.ranks) and place.step >= self.first_step
                and (self.last_step is None or place.step <= self.last_step)
                and (self.shared is None or place.shared == self.shared))


@dataclass(frozen=True, eq=False)
class Deviation:
    """A wrong decision. code: its short name.  words: what is wrong.

    decisions: decision -> change(right, machine, place), which returns the wrong decision.
    concerns(case): whether it can change the numbers of a case at all. This rules out many before a number is computed.
    rules: field of the manifest -> wrong value, instead of decisions.  fault: the class with the mistake, for a machine
    that runs a class.  paired: whether it is tried together with another one.
    """

    code: str
    words: str
    decisions: dict[str, Callable[[Any, Any, Place], Any]] = field(default_factory=dict)
    concerns: Callable[[Case], bool] = anywhere
    rules: dict = field(default_factory=dict)
    fault: Any = None
    scope: Scope = Scope()
    paired: bool = True

    def within(self, scope: Scope) -> "Deviation":
        """Return the same deviation in another scope."""
        return replace(self, scope=scope)


class Machine:
    """Computes the numbers of a case. Each decision goes through ``decide``. Subclasses define the decisions.

    fields: the fields of the manifest that the numbers depend on.
    remembers: whether a decision changes the answers of later steps.
    in_pairs: decisions of which two may be wrong at once. So may rules of the manifest.
    base: a machine of the same case without deviations, whose sums may be used; None: there is none.
    memo: the sums of the base. Cases with the same ``inputs`` may share it.
    """

    fields: tuple[str, ...] = ()
    remembers = False
    in_pairs: frozenset[str] = frozenset({"divisor", "duplicates", "norm"})
    base: "Machine | None" = None

    @classmethod
    def alternatives(cls, cases) -> list[Deviation]:
        """Return the deviations that are tried on some cases, the commonest first. Local."""
        raise NotImplementedError

    @classmethod
    def fitted(cls, observed, machines) -> list[Deviation]:
        """Return deviations with a number that is computed from wrong answers. Local.

        observed: a wrong answer of each case.  machines: of each case, without deviations.
        """
        return []

    def __init__(self, case: Case, semantics, deviations: tuple[Deviation, ...] = ()):
        rules = {field: value for d in deviations for field, value in d.rules.items()}
        self.case, self.deviations = case, deviations
        self.semantics = replace(semantics, **rules) if rules else semantics
        self.memo: dict = {}

    @property
    def inputs(self):
        """What sums depend on, apart from deviations."""
        return id(self.case)

    @property
    def steps(self) -> int:
        """How many answers there are."""
        return len(self.case.steps)

    def decide(self, decision: str, right, place: Place):
        """Return a decision: ``right``, or what the deviations make of it."""
        for deviation in self.deviations:
            if decision in deviation.decisions and deviation.scope.hits(place):
                try:
                    right = deviation.decisions[decision](right, self, place)
                except Impossible:  # it cannot be applied at this place
                    pass
        return right

    def expected(self) -> list[dict] | None:
        """Return for each step name -> Expected, the same on each rank that has it; None: an error. Local."""
        return [{v.name: self.answer(Place(step, 0, v)) for v in self.case.variables} for step in range(self.steps)]


class SimulatedClass(Machine):
    """A machine whose deviations are classes, its ``kinds``. It runs a class once, and looks up the answers."""

    kinds: dict[type, int] = {}

    @classmethod
    def alternatives(cls, cases):
        """Return each kind. If all its methods get a variable or layer, return it for each of them alone, too. Local.
        """
        names = dict.fromkeys(name for case in cases for name in cls.names(case))
        return [Deviation(code_of(kind), words_of(kind) + where, fault=one) for kind in cls.kinds
                for where, scoped in [("", kind), *((f": {name}", in_one(kind, name)) for name in names)] if scoped
                for one in cls.variants(scoped, cases)]

    @classmethod
    def names(cls, case) -> list[str]:
        """Return the variables of which one alone may be wrong. Local."""
        return [v.name for v in case.variables]

    @classmethod
    def variants(cls, kind, cases) -> list[type]:
        """Return a kind with each value of its attributes that changes the numbers of some case. Local."""
        return [kind]

    def __init__(self, case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        self.found = self.simulate(next((d.fault for d in deviations if d.fault), None))

    def simulate(self, kind) -> list[dict] | None:
        """Return for each step name -> Expected, or name -> rank -> Expected; None: a hang, an error, or no change.

        kind: the class with the mistake; None: the plain class. Local.
        """
        raise NotImplementedError

    def expected(self) -> list[dict] | None:
        """Return for each step name -> Expected; None: an error. Local."""
        return self.found and [{name: next(iter(want.values())) if isinstance(want, dict) else want
                                for name, want in step.items()} for step in self.found]

    def answer(self, place: Place):
        """Return what is expected at a place. With a deviation it need not be exact. Local. Raises Impossible."""
        if self.found is None:
            raise Impossible
        want = self.found[place.step][place.variable.name]
        want = want[place.rank] if isinstance(want, dict) else want
        if not self.deviations:
            return want
        eps = 64 * np.finfo(np.float32).eps
        return replace(want, tolerance=np.maximum(want.tolerance, eps * np.abs(numbers_of(want.value))))


def in_one(kind: type, only: str) -> type | None:
    """Return a class with the mistake in one layer or variable alone; None if not all methods get it. Local."""
    def method(name, wrong):
        return lambda self, what, *rest: (wrong(self, what, *rest) if what.name == only else
                                          getattr(super(kind, self), name)(what, *rest))

    methods = {name: method for name, method in vars(kind).items() if isfunction(method)}
    told = methods and all({"layer", "v"} & {*[*signature(method).parameters][1:2]} for method in methods.values())
    return type(kind.__name__, (kind,), {n: method(n, wrong) for n, wrong in methods.items()}) if told else None


def code_of(kind: type) -> str:
    """Return "stale-dropped" for StaleDropped. Local."""
    return re.sub("(?<!^)(?=[A-Z])", "-", kind.__name__).lower()


def words_of(kind: type) -> str:
    """Return a docstring as a part of a sentence: its first letter is small, and the stop is gone. Local."""
    words = " ".join(kind.__doc__.split()).rstrip(".")
    return words[0].lower() + words[1:]


def scopes(cases: list[Case]) -> list[Scope]:
    """Return the scopes of some cases, the widest first. Local."""
    variables, found = [v for case in cases for v in case.variables], kind_scopes(cases)
    for dtype in sorted({v.dtype for v in variables}) if len({v.dtype for v in variables}) > 1 else ():
        found.append(Scope(lambda v, dtype=dtype: v.dtype == dtype, words=f"of {dtype} gradients alone"))
    found += [Scope(lambda v: v.shape == (), words="of scalars alone"),
              Scope(lambda v: not v.sparse and prod(v.shape) == 1, words="of gradients of one element alone"),
              Scope(lambda v: not v.sparse and prod(v.shape) > 1, words="of gradients of more than one element alone")]
    if any(len(case.steps) > 1 for case in cases):
        found += [step_scopes(first)[0] for first in (1, 2)]
    found += rank_scopes(cases)
    names = sorted({v.name for case in cases for v in case.variables if len(case.variables) > 1})
    named = [Scope(lambda v, name=name: v.name == name, words=f"of {name} alone") for name in names]
    return [*found, *named, *(replace(of, ranks=on.ranks, words=f"{of.words}, {on.words}")
                              for of in named for on in rank_scopes(cases))]


def kind_scopes(cases: list[Case]) -> list[Scope]:
    """Return two scopes, row and dense gradients, if the cases have both. Local."""
    if len({v.sparse for case in cases for v in case.variables}) < 2:
        return []
    return [Scope(lambda v: v.sparse, words="of row gradients alone"),
            Scope(lambda v: not v.sparse, words="of dense gradients alone")]


def step_scopes(first: int) -> list[Scope]:
    """Return two scopes: from a step on, and this step alone. Local."""
    which = ordinal(first + 1)
    return [Scope(first_step=first, words=f"from the {which} step on"),
            Scope(first_step=first, last_step=first, words=f"in the {which} step alone")]


def row_scopes() -> list[Scope]:
    """Return two scopes: rows that several ranks push, and rows that one rank pushes. Local."""
    return [Scope(words=f"of rows alone that {words}", shared=shared) for shared, words in (
        (True, "several ranks push"), (False, "a single rank pushes"))]


def rank_scopes(cases: list[Case]) -> list[Scope]:
    """Return the scopes of single ranks, and of all ranks but one. Local."""
    everyone = range(max(case.ranks for case in cases))
    if len(everyone) == 1:
        return []
    single = [(r,) for r in everyone]
    others = [tuple(q for q in everyone if q != r) for r in everyone] if len(everyone) > 2 else []
    return [Scope(ranks=ranks, words=f"on {ranks_in_words(ranks)}") for ranks in (*single, *others)]
