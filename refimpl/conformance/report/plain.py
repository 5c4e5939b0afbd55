"""An outcome as plain JSON data, and as lines of text."""

import math
from dataclasses import asdict

from refimpl.conformance.diagnose import summary
from refimpl.conformance.report.expected import ExpectedFailures
from refimpl.conformance.report.snippet import snippet
from refimpl.conformance.words import some

FORMAT = 1


def plain(outcome, expected: ExpectedFailures = ExpectedFailures()) -> dict:
    """Return what the suite found, as JSON values; numbers that JSON does not know become text. Local."""
    failed = unexpected(outcome, expected)
    return _finite({
        "format": FORMAT, "target": outcome.target, "ranks": outcome.ranks, "manifest": outcome.semantics.to_json(),
        "counts": counts_of(outcome.verdicts),
        "unexpected_failures": [v.case for v in failed], "fixed": expected.fixed(outcome.verdicts),
        "diagnoses": [{**asdict(diagnosis), "cases": cases, "snippet": snippet(outcome, diagnosis)}
                      for diagnosis, cases in summary(outcome.verdicts)],
        "cases": [_case(v, expected) for v in outcome.verdicts],
    })


def counts_of(verdicts) -> dict[str, int]:
    """Return status -> how many verdicts have it. Local."""
    return {status: sum(v.status == status for v in verdicts) for status in ("passed", "failed", "skipped")}


def unexpected(outcome, expected: ExpectedFailures) -> list:
    """Return the verdicts that failed and are not expected to."""
    return [v for v in outcome.failed if not expected.reason(v.case, v.ranks)]


def rows(outcome, expected: ExpectedFailures, verbose: bool = False):
    """Yield (case, stage, status, worst ULP, worst ratio, words) of cases that failed; with ``verbose``, or passed.

    Other variables that failed in a case follow it, with "" for the first three. Local.
    """
    for v in outcome.verdicts:
        if v.status == "failed" or verbose and v.status == "passed":
            status = "expected" if v.status == "failed" and expected.reason(v.case, v.ranks) else v.status
            numbers = (f"{v.worst_ulp:.3g}", f"{v.worst_ratio:.3g}") if v.findings else ("", "")
            yield v.case, v.stage, status, *numbers, v.why
            for f in v.findings:
                if not f.ok and not v.why.startswith(f.words):
                    yield "", "", "", f"{f.worst_ulp:.3g}", f"{f.worst_ratio:.3g}", f.words


def remarks(outcome, expected: ExpectedFailures):
    """Yield (style, line) of what is said below the cases: what was skipped, the diagnoses, the counts. Local."""
    reasons: dict[str, list[str]] = {}
    for v in outcome.verdicts:
        if v.status == "skipped":
            reasons.setdefault(v.why, []).append(v.case)
    for reason, cases in reasons.items():
        yield "dim", f"skipped, {reason}: {some(cases)}"
    for diagnosis, cases in summary(outcome.verdicts):
        yield "bold", f"{diagnosis.words} ({diagnosis.code})"
        if diagnosis.evidence:
            yield "none", f"    {diagnosis.evidence}"
        hint = "; --snippet FILE writes a program that shows it" if diagnosis.shown_by else ""
        yield "dim", f"    in {some(cases)}{hint}"
    for pattern in expected.fixed(outcome.verdicts):
        yield "yellow", f"{pattern} passes now: take it off the list of expected failures"
    counts = ", ".join(f"{count} {status}" for status, count in counts_of(outcome.verdicts).items())
    bad = unexpected(outcome, expected)
    of_them = f"; {len(bad)} of them unexpected" if expected.reasons and outcome.failed else ""
    yield "bold red" if bad else "green", counts + of_them


def lines(outcome, expected: ExpectedFailures = ExpectedFailures(), verbose: bool = False) -> list[str]:
    """Return the report as plain lines, for terminals without rich. Local."""
    return [f"{outcome.target} on {outcome.ranks} ranks",
            *(f"{case} ({stage}) {status}: {words}" if case else f"    {words}"
              for case, stage, status, _, _, words in rows(outcome, expected, verbose)),
            *(line for _, line in remarks(outcome, expected))]


def _case(verdict, expected) -> dict:
    data = asdict(verdict) | {"worst_ulp": verdict.worst_ulp, "worst_ratio": verdict.worst_ratio}
    if verdict.status == "failed" and (reason := expected.reason(verdict.case, verdict.ranks)):
        data["expected_failure"] = reason
    return data


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
