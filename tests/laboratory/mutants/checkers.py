"""Checkers made weak in the classic ways, and the audit that sees each weakness.

The audit plants four faults, each of which exactly one kind of weak checker cannot see. A suite that misses one is
weak, and the fault that it misses says how.
"""

from dataclasses import dataclass, replace
from typing import Callable

import numpy as np

from mutants.aggregation import RankTwice
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.case import Case, Rows, with_numbers
from refimpl.conformance.compare import Verdict, aligned, judge
from refimpl.conformance.runner import answers_of


def changed(change: Callable) -> type:
    """Return the adapter of which every array comes back as change(array)."""
    class Changed(Reference):
        def aggregate_dense(self, arrays):
            return {n: change(a) for n, a in super().aggregate_dense(arrays).items()}

        def aggregate_rows(self, gradients, shapes):
            return {n: (ids, change(rows)) for n, (ids, rows) in super().aggregate_rows(gradients, shapes).items()}

    return Changed


Permuted = changed(lambda array: np.flip(array, -1) if array.ndim else array)
"""Elements of a row, or of a dense array's last axis, come back in reverse."""
SmallLost = changed(lambda array: np.where(np.abs(array) < 1e-5, 0, array).astype(array.dtype))
"""Whatever is below 1e-5 is lost: an error of 100 %."""
TooLow = changed(lambda array: (array - np.abs(array) / 256).astype(array.dtype))
"""Every number is a little too low."""
FAULTS = {"ranks-alike": RankTwice, "constant": Permuted, "absolute-tolerance": SmallLost, "one-sided": TooLow}
"""What a suite is called that does not see the fault."""


def alike(case: Case) -> Case:
    """Return a case in which every rank has rank 0's inputs."""
    return replace(case, steps=tuple(tuple(ranks[0] for _ in ranks) for ranks in case.steps))


def constant(case: Case) -> Case:
    """Return a case in which each rank's array is one number throughout."""
    def flat(array):
        return np.full(array.shape, np.abs(array).max(initial=0), array.dtype)

    return replace(case, steps=tuple(tuple({n: with_numbers(p, flat) for n, p in parts.items()} for parts in ranks)
                                     for ranks in case.steps))


def judge_by(close: Callable) -> Callable:
    """Return a judge that compares by close(found, wanted) alone."""
    def judged(case, semantics, answers):
        verdict, evidence = judge(case, semantics, answers)
        if verdict.status != "failed" or not evidence.observed or evidence.complaints:
            return verdict
        fine = all(close(*_pair(value, wanted.value)) for _, value, wanted in evidence.seen())
        return replace(verdict, status="passed" if fine else "failed")

    return judged


def _pair(found, wanted):
    places = np.union1d(found.ids, wanted.ids) if isinstance(wanted, Rows) else None
    return aligned(found, places).astype(np.float64), np.asarray(aligned(wanted, places), np.float64)


def absolutely(found, wanted) -> bool:
    """Return whether all numbers are within 1e-5."""
    return np.allclose(found, wanted, rtol=0, atol=1e-5, equal_nan=True)


def one_sided(found, wanted) -> bool:
    """Return whether no finite number is too high."""
    finite = np.isfinite(wanted)
    return bool((found[finite] <= wanted[finite]).all())


def strictly(case, semantics, answers) -> Verdict:
    """Judge as the suite does, without a diagnosis."""
    return judge(case, semantics, answers)[0]


@dataclass(frozen=True)
class Checker:
    """bug: its number in the list of classic bugs.  code: what the audit should call it."""

    bug: int
    words: str
    code: str
    change: Callable[[Case], Case]
    judged: Callable


CHECKERS = (
    Checker(33, "every rank holds the same test tensor", "ranks-alike", alike, strictly),
    Checker(34, "a constant tensor hides offsets and permutations", "constant", constant, strictly),
    Checker(35, "an absolute tolerance accepts any error on small gradients", "absolute-tolerance", lambda case: case,
            judge_by(absolutely)),
    Checker(36, "a one-sided check passes whatever is too low", "one-sided", lambda c: c, judge_by(one_sided)),
)


def audit(cases, judged=strictly) -> list[str]:
    """Return the weaknesses of a suite: the faults that none of its cases sees. cases: of dense and row gradients."""
    return [code for code, fault in FAULTS.items()
            if not any(judged(case, *answers_of(fault, case)).status == "failed" for case in cases)]
