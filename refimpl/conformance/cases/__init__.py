"""The cases, as data: functions of the number of ranks alone."""

from functools import lru_cache

from refimpl.conformance.case import Case
from refimpl.conformance.cases import bags, codecs, dense, edges, mesh, owner, rows, together, training

RANKS = (1, 2, 3, 4, 5, 8)
"""Numbers of ranks that the cases are made for."""


@lru_cache(maxsize=None)
def all_cases(ranks: int) -> tuple[Case, ...]:
    """Return every case for a number of ranks, 1 to 8. Local. Raises ValueError for another number."""
    if not 1 <= ranks <= 8:
        raise ValueError(f"the cases serve 1 to 8 ranks, not {ranks}: rank r contributes 4^r, and all digits must fit")
    return tuple(case for part in (dense, rows, bags, edges, together, training, owner, mesh,
                                   codecs) for case in part.cases(ranks))


def case_named(name: str, ranks: int) -> Case:
    """Return one case. Raises ValueError naming those that there are."""
    found = [case for case in all_cases(ranks) if case.name == name]
    if not found:
        raise ValueError(f"no case {name!r} for {ranks} ranks; there are {', '.join(c.name for c in all_cases(ranks))}")
    return found[0]
