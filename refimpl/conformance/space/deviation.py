"""A deviation: one decision taken in a wrong way, with its variables, its ranks, and the step when it begins."""

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
    """Return what makes changes of change(parameters, right, machine, place), from the parameters. Local."""
    return partial(partial, change)


class Impossible(Exception):
    """A deviation has nothing to deviate in, here or in the whole case."""


def concatenated(parts):
    """Return one gradient of several: arrays are added up, rows are put one after the other. Local."""
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
    """Where a decision is taken. rank: the rank that takes it; None: all owners together.

    shared: of rows that several ranks push; False: of the other rows; None: of all together.
    """

    step: int
    rank: int | None
    variable: CaseVariable | None = None
    shared: bool | None = None


@dataclass(frozen=True)
class Scope:
    """What a deviation hits; None: everything. words: of the variables, ", of row gradients alone".

    shared: it hits nothing but rows that several ranks push (True), that one rank alone pushes (False).
    """

    variables: Callable[[CaseVariable], bool] | None = None
    ranks: tuple[int, ...] | None = None
    first_step: int = 0
    last_step: int | None = None
    words: str = ""
    shared: bool | None = None

    def hits(self, place: Place) -> bool:
        """Return whether a decision at a place is hit."""
        return ((self.variables is None or place.variable is not None and self.variables(place.variable))
                and (self.ranks is None or place.rank in self.ranks) and place.step >= self.first_step
                and (self.last_step is None or place.step <= self.last_step)
                and (self.shared is None or place.shared == self.shared))


@dataclass(frozen=True, eq=False)
class Deviation:
    """code: its short name.  words: what is wrong.

    decisions: decision -> change(right, machine, place) -> what is decided in place of ``right``.
    concerns(case): whether it can change a case at all; many are ruled out by this before a number is computed.
    rules: what of the manifest it changes, in place of decisions.  fault: the class that decides otherwise, of machines
    that run one.  paired: whether it is tried together with others.
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
        """Return the same deviation in a scope of its own."""
        return replace(self, scope=scope)


class Machine:
    """Computes a case's numbers; every decision is asked for by its name. Subclasses say what there is to decide.

    fields: what of the manifest its numbers depend on.
    remembers: whether what is decided in a step changes later answers.
    in_pairs: decisions that are tried two at once, beside the rules of the manifest.
    base: a machine of the same case that deviates in nothing, of which sums may be taken; None: there is none.
    memo: what the base keeps of sums; cases with the same ``inputs`` may share it.
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
        """Return deviations by a number that wrong answers tell. observed: one each; machines: right ones. Local."""
        return []

    def __init__(self, case: Case, semantics, deviations: tuple[Deviation, ...] = ()):
        rules = {field: value for d in deviations for field, value in d.rules.items()}
        self.case, self.deviations = case, deviations
        self.semantics = replace(semantics, **rules) if rules else semantics
        self.memo: dict = {}

    @property
    def inputs(self):
        """What sums depend on, beside the deviations."""
        return id(self.case)

    @property
    def steps(self) -> int:
        """How many answers there are."""
        return len(self.case.steps)

    def decide(self, decision: str, right, place: Place):
        """Return what is decided: ``right``, unless a deviation says otherwise."""
        for deviation in self.deviations:
            if decision in deviation.decisions and deviation.scope.hits(place):
                try:
                    right = deviation.decisions[decision](right, self, place)
                except Impossible:  # here it has nothing to deviate in
                    pass
        return right

    def expected(self) -> list[dict] | None:
        """Return, step by step, name -> what is expected on each rank that has it; None: an error. Local."""
        return [{v.name: self.answer(Place(step, 0, v)) for v in self.case.variables} for step in range(self.steps)]


class SimulatedClass(Machine):
    """A machine whose deviations are classes, its ``kinds``: it runs one, or the plain one, and looks answers up."""

    kinds: dict[type, int] = {}

    @classmethod
    def alternatives(cls, cases):
        """Return each kind; what is told of a variable or layer also for each of the cases' alone. Local."""
        names = dict.fromkeys(name for case in cases for name in cls.names(case))
        return [Deviation(code_of(kind), words_of(kind) + where, fault=one) for kind in cls.kinds
                for where, scoped in [("", kind), *((f": {name}", in_one(kind, name)) for name in names)] if scoped
                for one in cls.variants(scoped, cases)]

    @classmethod
    def names(cls, case) -> list[str]:
        """Return what a deviation may concern alone: variables. Local."""
        return [v.name for v in case.variables]

    @classmethod
    def variants(cls, kind, cases) -> list[type]:
        """Return a kind with each value of its attributes that some cases can show. Local."""
        return [kind]

    def __init__(self, case, semantics, deviations=()):
        super().__init__(case, semantics, deviations)
        self.found = self.simulate(next((d.fault for d in deviations if d.fault), None))

    def simulate(self, kind) -> list[dict] | None:
        """Return, step by step, name -> Expected, or name -> rank -> Expected; None: a hang, an error, or no change.

        kind: the deviation's class, None: the plain one. Local.
        """
        raise NotImplementedError

    def expected(self) -> list[dict] | None:
        """Return, step by step, name -> what is expected; None: an error. Local."""
        return self.found and [{name: next(iter(want.values())) if isinstance(want, dict) else want
                                for name, want in step.items()} for step in self.found]

    def answer(self, place: Place):
        """Return what is expected at a place; a deviation's numbers need not be exact. Local. Raises Impossible."""
        if self.found is None:
            raise Impossible
        want = self.found[place.step][place.variable.name]
        want = want[place.rank] if isinstance(want, dict) else want
        if not self.deviations:
            return want
        eps = 64 * np.finfo(np.float32).eps
        return replace(want, tolerance=np.maximum(want.tolerance, eps * np.abs(numbers_of(want.value))))


def in_one(kind: type, only: str) -> type | None:
    """Return a class that deviates for one layer or variable alone; None if not all its methods are told which. Local.
    """
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
    """Return a docstring as it goes on in a sentence. Local."""
    words = " ".join(kind.__doc__.split()).rstrip(".")
    return words[0].lower() + words[1:]


def scopes(cases: list[Case]) -> list[Scope]:
    """Return scopes smaller than everything, the widest first. Local."""
    variables = [v for case in cases for v in case.variables]
    found = []
    if len({v.sparse for v in variables}) > 1:
        found += [Scope(lambda v: v.sparse, words="of row gradients alone"),
                  Scope(lambda v: not v.sparse, words="of dense gradients alone")]
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


def step_scopes(first: int) -> list[Scope]:
    """Return what a deviation may hit that begins in a step: all from it on, and that step alone. Local."""
    which = ordinal(first + 1)
    return [Scope(first_step=first, words=f"from the {which} step on"),
            Scope(first_step=first, last_step=first, words=f"in the {which} step alone")]


def row_scopes() -> list[Scope]:
    """Return the rows that several ranks push, and those that one rank alone pushes. Local."""
    return [Scope(words=f"of rows alone that {words}", shared=shared) for shared, words in (
        (True, "several ranks push"), (False, "a single rank pushes"))]


def rank_scopes(cases: list[Case]) -> list[Scope]:
    """Return single ranks, and all but one. Local."""
    everyone = range(max(case.ranks for case in cases))
    if len(everyone) == 1:
        return []
    single = [(r,) for r in everyone]
    others = [tuple(q for q in everyone if q != r) for r in everyone] if len(everyone) > 2 else []
    return [Scope(ranks=ranks, words=f"on {ranks_in_words(ranks)}") for ranks in (*single, *others)]
