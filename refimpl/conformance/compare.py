"""Compare the answers of all ranks with the expected ones: the worst error of each variable, and the first."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refimpl.conformance.bounds import Expected, alike, ulps
from refimpl.conformance.case import Case, Rows
from refimpl.conformance.checks import CHECKS, VariableResult
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.observe import Evidence, gather_evidence
from refimpl.conformance.semantics import Semantics
from refimpl.words import ranks_named


@dataclass
class Verdict:
    """The result of a case. status: passed, failed or skipped.  diagnosis: see ``diagnose``."""

    case: str
    ranks: int
    kind: str
    stage: str
    status: str
    why: str = ""
    findings: list[VariableResult] = field(default_factory=list)
    diagnosis: Any = None

    @property
    def worst_ulp(self) -> float:
        """Largest distance of any variable, in ULP."""
        return max((f.worst_ulp for f in self.findings), default=0.0)

    @property
    def worst_ratio(self) -> float:
        """Largest distance of any variable over its tolerance."""
        return max((f.worst_ratio for f in self.findings), default=0.0)


def judge(case: Case, semantics: Semantics, answers) -> tuple[Verdict, Evidence | None]:
    """Return the verdict on a case, and the evidence if one is needed for a diagnosis. Local. answers[r]: of rank r."""
    def verdict(status, why="", findings=()):
        return Verdict(case.name, case.ranks, case.kind, KINDS[case.kind].stage, status, why, list(findings))

    if all(a.skipped for a in answers):
        return verdict("skipped", answers[0].skipped), None
    wanted = KINDS[case.kind].expect(case, semantics)
    evidence = gather_evidence(case, semantics, answers, wanted)
    if any(a.error for a in answers):
        refused = case.settings.get("refused") or case.may_be_refused and semantics.nonfinite == "refuse"
        if refused and all(a.error for a in answers):
            return verdict("passed", f"refused on every rank: {answers[0].error}"), None
        return verdict("failed", errors_in_words(answers)), evidence
    findings = list(evidence.complaints)
    if case.kind in CHECKS and not findings:
        findings += CHECKS[case.kind](case, semantics, answers)
    if wanted is not None and not evidence.complaints:
        findings += [_finding(evidence, name) for name in wanted[0]]
    failed = [f for f in findings if not f.ok]
    return verdict("failed" if failed else "passed", failed[0].words if failed else "", findings), evidence


def errors_in_words(answers) -> str:
    """Return the errors of the ranks. Ranks that only waited for others come last. Local."""
    said: dict[str, list[int]] = {}
    for rank, answer in enumerate(answers):
        if answer.error:
            said.setdefault(answer.error, []).append(rank)
    ordered = sorted(said.items(), key=lambda pair: pair[0].startswith(("LeftAlone", "never")))
    return "; ".join(f"{ranks_named(ranks)}: {text}" for text, ranks in ordered)


def _finding(evidence: Evidence, name: str) -> VariableResult:
    """Return the worst error of one variable over all steps and ranks, and the first wrong place."""
    result = VariableResult(name, True, evidence.wanted[0][name].comparison)
    for step, wanted in enumerate(evidence.wanted):
        for rank, found in evidence.observed[step].get(name, []):
            when = f"{'pull' if evidence.case.kind == 'owner' else 'step'} {step}"
            note(result, found, wanted[name], step, rank, f"{when}, {'owner' if rank is None else f'rank {rank}'}")
    return result


def note(finding: VariableResult, found, wanted: Expected, step, rank, where: str) -> None:
    """Add an array or Rows to a finding: its worst distances, and its first wrong place. Local.

    where: the step and rank, in words.
    """
    apart, ratio, bad, ids = differences(found, wanted)
    finding.worst_ulp = max(finding.worst_ulp, float(apart.max(initial=0.0)))
    finding.worst_ratio = max(finding.worst_ratio, float(ratio.max(initial=0.0)))
    if bad.any() and finding.ok:
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        finding.ok, finding.step, finding.rank = False, step, rank
        finding.element = at if ids is None else (int(ids[at[0]]), *at[1:])
        finding.found, finding.wanted = (float(aligned(x, ids)[at]) for x in (found, wanted.value))
        finding.words = (f"{finding.variable}{list(finding.element) or ''} is {finding.found:.9g}, expected "
                         f"{finding.wanted:.9g} ({where})")


def differences(found, wanted: Expected):
    """Return (ulps, ratios, bad, places): arrays of one shape, and the ids of their rows, None if dense. Local."""
    value, expected, error, tolerance, places = _apart(found, wanted)
    bad = _bad(found, wanted, error, tolerance, places)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(tolerance > 0, error / tolerance, np.where(error > 0, np.inf, 0.0))
    if wanted.canonical is not None:
        ratio = np.where(bad, np.inf, 0.0)
    return ulps(value, expected, wanted.dtype), ratio, bad, places


def right(found, wanted: Expected) -> bool:
    """Return whether ``differences`` finds nothing wrong; faster. Local."""
    _, _, error, tolerance, places = _apart(found, wanted)
    return not _bad(found, wanted, error, tolerance, places).any()


def _apart(found, wanted):
    """Return (found, wanted, distance, tolerance) as arrays of one shape, and places."""
    places = None
    if isinstance(wanted.value, Rows):
        places = wanted.value.ids
        if np.array_equal(found.ids, places):
            found = Rows(places, found.rows)
        else:
            places = np.union1d(found.ids, places).astype(np.int64)
    value, expected = (np.asarray(aligned(x, places), np.float64) for x in (found, wanted.value))
    tolerance = wanted.tolerance if places is None else aligned(Rows(wanted.value.ids, wanted.tolerance), places)
    with np.errstate(invalid="ignore"):
        error = np.where(alike(value, expected), 0.0, np.abs(value - expected))
    return value, expected, np.where(np.isnan(error), np.inf, error), tolerance, places


def _bad(found, wanted, error, tolerance, places):
    if wanted.canonical is not None:
        return ~_same_bits(aligned(found, places), aligned(wanted.canonical, places))
    return ~(error <= tolerance)


def aligned(part, places):
    """Return an array as it is, and of Rows the rows ``places``; rows that are missing are 0. Local."""
    if not isinstance(part, Rows):
        return np.asarray(part)
    if places is None or places is part.ids:
        return part.rows
    result = np.zeros((len(places), *part.rows.shape[1:]), part.rows.dtype)
    result[np.searchsorted(places, part.ids)] = part.rows
    return result


def _same_bits(found, canonical) -> np.ndarray:
    unsigned = f"u{canonical.dtype.itemsize}"
    same = np.ascontiguousarray(found).reshape(-1).view(unsigned) == \
        np.ascontiguousarray(canonical).reshape(-1).view(unsigned)
    return same.reshape(np.shape(found)) | (np.isnan(found) & np.isnan(canonical))
