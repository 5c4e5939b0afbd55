"""The scopes that a deviation may have in some cases: kinds of variables, single ones, ranks, later steps."""

from dataclasses import replace
from math import prod

from refimpl.conformance.case import Case
from refimpl.conformance.space.deviation import Scope
from refimpl.conformance.words import ranks_in_words

ORDINALS = ("first", "second", "third", "fourth")


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
        found += [Scope(first_step=1, words="from the second step on"),
                  Scope(first_step=2, words="from the third step on")]
    found += rank_scopes(cases)
    names = sorted({v.name for case in cases for v in case.variables if len(case.variables) > 1})
    named = [Scope(lambda v, name=name: v.name == name, words=f"of {name} alone") for name in names]
    return [*found, *named, *(replace(of, ranks=on.ranks, words=f"{of.words}, {on.words}")
                              for of in named for on in rank_scopes(cases))]


def step_scopes(first: int) -> list[Scope]:
    """Return what a deviation may hit that begins in a step: all from it on, and that step alone. Local."""
    which = ORDINALS[first] if first < len(ORDINALS) else f"{first + 1}th"
    alone = Scope(first_step=first, last_step=first, words=f"in the {which} step alone")
    return [Scope(first_step=first, words=f"from the {which} step on"), alone]


def rank_scopes(cases: list[Case]) -> list[Scope]:
    """Return single ranks, and all but one. Local."""
    everyone = range(max(case.ranks for case in cases))
    if len(everyone) == 1:
        return []
    single = [(r,) for r in everyone]
    others = [tuple(q for q in everyone if q != r) for r in everyone] if len(everyone) > 2 else []
    return [Scope(ranks=ranks, words=f"on {ranks_in_words(ranks)}") for ranks in (*single, *others)]
