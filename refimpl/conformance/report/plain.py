"""An outcome as plain JSON data."""

import math
from dataclasses import asdict

from refimpl.conformance.diagnose import summary
from refimpl.conformance.report.expected import ExpectedFailures
from refimpl.conformance.report.snippet import snippet

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


def numbers_of(verdict) -> tuple[str, str]:
    """Return worst ULP and worst ratio of a verdict or finding as text, "" where nothing was compared. Local."""
    compared = getattr(verdict, "findings", True)
    return (f"{verdict.worst_ulp:.3g}", f"{verdict.worst_ratio:.3g}") if compared else ("", "")


def others_that_failed(verdict) -> list:
    """Return the findings that failed beside the one whose words the verdict has. Local."""
    return [f for f in verdict.findings if not f.ok and not verdict.why.startswith(f.words)]


def lines(outcome, expected: ExpectedFailures = ExpectedFailures()) -> list[str]:
    """Return the report as plain lines, for terminals without rich. Local."""
    result = [f"{outcome.target} on {outcome.ranks} ranks"]
    for v in outcome.failed:
        status = "expected" if expected.reason(v.case, v.ranks) else "failed"
        result.append(f"{v.case} ({v.stage}) {status}: {v.why}")
        result += [f"    {f.words}" for f in others_that_failed(v)]
    for diagnosis, cases in summary(outcome.verdicts):
        result += [f"{diagnosis.words} ({diagnosis.code})", f"    {diagnosis.evidence}", f"    in {', '.join(cases)}"]
    return [*result, ", ".join(f"{count} {status}" for status, count in counts_of(outcome.verdicts).items())]


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
