"""The outcome in the terminal: one line a case, then what is wrong, in words."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from refimpl.conformance.report.expected import ExpectedFailures
from refimpl.conformance.report.plain import remarks, rows

COLOURS = {"passed": "green", "failed": "bold red", "expected": "yellow", "": "none"}


def print_outcome(outcome, expected: ExpectedFailures, verbose: bool = False):
    """Print an outcome: the cases that did not just pass, or with ``verbose`` all; then the diagnoses."""
    console = Console()
    table = Table(title=f"{outcome.target} on {outcome.ranks} ranks", title_justify="left", box=SIMPLE_HEAD,
                  padding=(0, 1, 0, 0))
    for heading in ("case", "stage", "", "worst ULP", "of bound", "first difference"):
        right = heading in ("worst ULP", "of bound")
        table.add_column(heading, justify="right" if right else "left", no_wrap=heading == "case")
    for case, stage, status, *numbers, words in rows(outcome, expected, verbose):
        table.add_row(case, stage, f"[{COLOURS[status]}]{status}[/]", *numbers, escape(words))
    if table.row_count:
        console.print(table)
    for style, line in remarks(outcome, expected):
        console.print(line, style=style, markup=False)
