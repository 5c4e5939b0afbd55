"""The answers of all ranks, collected, with their form checked: the input of compare and diagnose."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refimpl.conformance.case import Case, Rows, numbers_of
from refimpl.conformance.checks import VariableResult, complaint
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.space.deviation import Machine, Place
from refimpl.plain.adding.rows import merge_occurrences


@dataclass
class Evidence:
    """observed[step][name]: (rank, array or Rows with rising ids) of each rank; rank None: joined from all owners.

    wanted: of each step name -> Expected; None for kinds with a check.  complaints: answers of a wrong form.
    """

    case: Case
    semantics: Semantics
    answers: list
    wanted: list | None
    observed: list[dict[str, list[tuple[int | None, Any]]]] = field(default_factory=list)
    complaints: list[VariableResult] = field(default_factory=list)

    @property
    def machine(self) -> type[Machine] | None:
        """The class that computes the numbers of the case, with or without deviations."""
        return KINDS[self.case.kind].machine

    @property
    def function(self) -> str:
        """The function of the adapter that is called."""
        return KINDS[self.case.kind].functions[0]

    def seen(self):
        """Yield (place, observed value, Expected) of every answer."""
        for step, observed in enumerate(self.observed):
            for name, found in observed.items():
                for rank, value in found:
                    yield Place(step, rank, self.case.variable(name)), value, self.wanted[step][name]


def gather_evidence(case: Case, semantics: Semantics, answers, wanted) -> Evidence:
    """Return the evidence of a case. An answer of a wrong form becomes a complaint. Local."""
    evidence = Evidence(case, semantics, answers, wanted)
    if wanted is None or any(a.error or a.skipped for a in answers):
        return evidence
    everyone, holders = case.settings.get("group", range(case.ranks)), case.settings.get("holders", {})
    for rank, answer in enumerate(answers):
        if len(answer.steps) != len(wanted):
            evidence.complaints.append(_miscounted_updates(case, rank, answer.steps, wanted))
    if evidence.complaints:
        return evidence
    for step, expected in enumerate(wanted):
        evidence.observed.append({})
        for name, want in expected.items():
            found = [(r, a.steps[step].get(name)) for r, a in enumerate(answers) if r in holders.get(name, everyone)]
            if isinstance(want.value, Rows) and semantics.rows_on == "every":
                shape = case.variable(name).shape  # all rows of a sparse variable, as an array, are right, too
                found = [(r, Rows(np.arange(shape[0]), part) if isinstance(part, np.ndarray) and part.shape == shape
                          else part) for r, part in found]
            wrong = next(((r, words) for r, part in found if (words := _wrong_form(name, part, want))), None)
            if wrong:
                evidence.complaints.append(complaint(name, f"rank {wrong[0]} gave {wrong[1]}", step, wrong[0]))
            else:
                evidence.observed[-1][name] = _observed(name, found, want, semantics, step, evidence)
    return evidence


def _miscounted_updates(case, rank, found, wanted) -> VariableResult:
    """Return a complaint about a wrong number of updates. Local.

    It says that the last window was dropped, or applied, against the manifest, if all updates before it are right.
    """
    words, code = f"rank {rank} gave {len(found)} updates, expected {len(wanted)}", ""
    first = next((step for step, (given, wants) in enumerate(zip(found, wanted))
                  if KINDS[case.kind].stage == "update" and not all(_gives(given.get(n), w) for n, w in wants.items())),
                 None)
    if first is not None:
        words = f"{words}; the first that differs is update {first}"
    elif case.kind == "accumulate" and abs(len(found) - len(wanted)) == 1:
        rule = "dropped" if len(found) < len(wanted) else "applied"
        words, code = f"{words}: the last window, which is partial, is {rule}", f"partial={rule}"
    return complaint("", words, rank=rank, code=code)


def _gives(part, want) -> bool:
    """Return whether a variable, whole, is as expected."""
    return np.shape(part) == np.shape(want.value) and bool((np.abs(part - want.value) <= want.tolerance).all())


def _wrong_form(name, part, want) -> str:
    """Return in words what a rank returned, if the form is wrong; otherwise ""."""
    rows = isinstance(want.value, Rows)
    if part is None:
        return f"nothing for {name}"
    if rows != isinstance(part, Rows):
        return f"{name} as {'an array' if rows else '(ids, rows)'}"
    if rows and len(part.ids) != len(part.rows):
        return f"{len(part.ids)} ids and {len(part.rows)} rows of {name}"
    shape, wanted = (part.rows.shape[1:], want.value.rows.shape[1:]) if rows else (part.shape, np.shape(want.value))
    if shape != wanted:
        return f"{name} of shape {shape}, expected {wanted}"
    if numbers_of(part).dtype != want.dtype:
        return f"{name} as {numbers_of(part).dtype}, expected {want.dtype}"
    if rows and part.ids.ndim != 1:
        return f"the ids of {name} of shape {part.ids.shape}, expected (n,)"
    return f"the ids of {name} as {part.ids.dtype}" if rows and part.ids.dtype.kind not in "iu" else ""


def _observed(name, found, want, semantics, step, evidence):
    if not isinstance(want.value, Rows):
        return found
    if semantics.rows_on == "owner" and KINDS[evidence.case.kind].stage == "aggregate":
        found = [(None, Rows(*(np.concatenate(x) for x in zip(*((p.ids, p.rows) for _, p in found)))))]
    result = []
    for rank, part in found:
        order = np.argsort(part.ids, kind="stable")
        rising = Rows(part.ids[order].astype(np.int64), part.rows[order])
        repeated = rising.ids[1:][rising.ids[1:] == rising.ids[:-1]]
        if len(repeated) and (rank is None or semantics.order == "tree"):  # bits of rows that are not added yet
            where = "several owners hold" if rank is None else f"rank {rank} got"
            evidence.complaints.append(complaint(name, f"{where} row {repeated[0]} of {name} more than once", step,
                                                 rank))
        result.append((rank, merge_occurrences(rising) if len(repeated) else rising))
    return result
