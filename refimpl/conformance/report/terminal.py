"""The outcome in the terminal: one line a case, then what is wrong, in words."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from refimpl.conformance.diagnose import summary
from refimpl.conformance.report.expected import ExpectedFailures
from refimpl.conformance.report.plain import counts_of, numbers_of, others_that_failed, unexpected
from refimpl.conformance.words import some

COLOURS = {"passed": "green", "failed": "bold red", "expected": "yellow"}


def print_outcome(outcome, expected: ExpectedFailures, verbose: bool = False):
    """Print an outcome: the cases that did not just pass, or with ``verbose`` all; then the diagnoses."""
    console = Console()
    table = Table(title=f"{outcome.target} on {outcome.ranks} ranks", title_justify="left", box=SIMPLE_HEAD,
                  padding=(0, 1, 0, 0))
    for heading in ("case", "stage", "", "worst ULP", "of bound", "first difference"):
        right = heading in ("worst ULP", "of bound")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading == "case")
    for v in outcome.verdicts:
        if v.status == "failed" or verbose and v.status == "passed":
            status = "expected" if v.status == "failed" and expected.reason(v.case, v.ranks) else v.status
            table.add_row(v.case, v.stage, f"[{COLOURS[status]}]{status}[/]", *numbers_of(v), escape(v.why))
            for finding in others_that_failed(v):
                table.add_row("", "", "", *numbers_of(finding), escape(finding.words))
    if table.row_count:
        console.print(table)
    _print_skipped(console, outcome.verdicts)
    for diagnosis, cases in summary(outcome.verdicts):
        console.print(f"[bold]{escape(diagnosis.words)}[/] [dim]({diagnosis.code})[/]")
        if diagnosis.evidence:
            console.print(f"    {escape(diagnosis.evidence)}")
        hint = "; --snippet FILE writes a program that shows it" if diagnosis.shown_by else ""
        console.print(f"    in {escape(some(cases))}{hint}", style="dim")
    for pattern in expected.fixed(outcome.verdicts):
        console.print(f"{escape(pattern)} passes now: take it off the list of expected failures", style="yellow")
    counts = ", ".join(f"{count} {status}" for status, count in counts_of(outcome.verdicts).items())
    bad = unexpected(outcome, expected)
    console.print(f"{counts}{f'; {len(bad)} of them unexpected' if expected.reasons and outcome.failed else ''}",
                  style="bold red" if bad else "green")


def _print_skipped(console, verdicts):
    reasons: dict[str, list[str]] = {}
    for v in verdicts:
        if v.status == "skipped":
            reasons.setdefault(v.why, []).append(v.case)
    for reason, cases in reasons.items():
        console.print(f"skipped, {escape(reason)}: {escape(some(cases))}", style="dim")
