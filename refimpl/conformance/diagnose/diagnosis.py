"""A diagnosis, and how a prediction is held against the evidence."""

from dataclasses import dataclass, replace

import numpy as np

from refimpl.conformance.case import Rows, numbers_of, with_numbers
from refimpl.conformance.compare import differences
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.rules.aggregate import Wanted


@dataclass(frozen=True)
class Diagnosis:
    """code: the bug's short name.  words: what is wrong.  evidence: what shows it.  vague: it says where, not why."""

    code: str
    words: str
    evidence: str = ""
    vague: bool = False


def failing(evidence) -> dict[str, list[tuple[int, int | None]]]:
    """Return variable -> (step, rank) of each answer that differs from what is expected. Local."""
    result: dict[str, list] = {}
    for step, observed in enumerate(evidence.observed):
        for name, found in observed.items():
            for rank, value in found:
                if differences(value, evidence.wanted[step][name])[2].any():
                    result.setdefault(name, []).append((step, rank))
    return result


def explains(evidence, predicted) -> bool:
    """Return True if a prediction gives all numbers: of what failed, and of what did not. Local.

    predicted[step][name]: Wanted, or rank -> Wanted.
    """
    if not predicted or len(predicted) != len(evidence.observed) or not failing(evidence):
        return False
    for step, observed in enumerate(evidence.observed):
        for name, found in observed.items():
            for rank, value in found:
                wanted = predicted[step].get(name)
                wanted = wanted.get(rank) if isinstance(wanted, dict) else wanted
                if wanted is None or differences(value, wanted)[2].any():
                    return False
    return True


def factor_of(pairs) -> float | None:
    """Return k if every found is k times what is expected, k neither 0 nor 1. pairs: (found, Wanted). Local."""
    factors = []
    for found, want in pairs:
        if isinstance(found, Rows) and not np.array_equal(found.ids, want.value.ids):
            return None
        x, y = flat(found), flat(want.value)
        factors.append(float(x @ y / (y @ y)) if y.any() else 0.0)
        good = np.isfinite(factors[-1]) and abs(factors[-1] - factors[0]) <= 1e-3 * abs(factors[0])
        if not good or not fits(found, want, with_numbers(want.value, lambda z: z * factors[-1]), 1e-6):
            return None
    middle = float(np.median(factors)) if factors else 0.0
    return None if middle in (0.0, 1.0) else middle


def fits(found, wanted: Wanted, value, relative: float = 0.0) -> bool:
    """Return whether numbers are a prediction within the expectation's tolerance. Local.

    value: array or Rows.  relative: of each predicted number that much is tolerated too.
    """
    tolerance = float(np.max(wanted.tolerance, initial=0.0)) + relative * np.abs(numbers_of(value))
    return not differences(found, Wanted(value, tolerance, wanted.dtype))[2].any()


def flat(part) -> np.ndarray:
    """Return the numbers of an array or Rows as one float64 vector. Local."""
    return np.ravel(numbers_of(part)).astype(np.float64)


def nothing_there(evidence) -> bool:
    """Return whether all that differs is zero or missing: then a swap with something empty would explain it. Local."""
    return not any(np.any(numbers_of(value)) for name, places in failing(evidence).items()
                   for step, rank in places for r, value in evidence.observed[step][name] if r == rank)


def with_changes(evidence, change=None, loose=False, **semantics):
    """Return what would be expected of changed inputs, or under changed semantics, in any order of summation. Local.

    change(step, rank, name, part) -> what stands in place of each part.
    loose: whole prediction within rounding, since changed inputs may not be exact any more.
    """
    case = replace(evidence.case, exact=evidence.case.exact and not loose)
    if change:
        steps = tuple(tuple({name: change(s, r, name, part) for name, part in parts.items()}
                            for r, parts in enumerate(ranks)) for s, ranks in enumerate(case.steps))
        case = replace(case, steps=steps)
    return KINDS[case.kind].expect(case, replace(evidence.semantics, order="any", **semantics))


def names_in_words(names) -> str:
    """Return "a", "a and b", "a, b and c". Local."""
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else str(last)


def ranks_in_words(ranks) -> str:
    """Return "rank 2", "ranks 0 and 2". Local."""
    ranks = list(ranks)
    return f"rank{'s' if len(ranks) > 1 else ''} {names_in_words(map(str, ranks))}"
