"""Plant every classic bug, try correct implementations, print what the suite makes of them: ``make test-mutants``."""

import argparse
import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mutants.run import run_mutants


def main(arguments=None) -> int:
    """Return 0 if all bugs are seen, 90 % are named and nobody is accused; 1 otherwise. Local."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="default 4")
    parser.add_argument("--configurations", type=int, default=200, metavar="N",
                        help="correct implementations to try (default 200)")
    asked = parser.parse_args(arguments)
    score = run_mutants(asked.ranks, asked.configurations)
    print_score(score)
    counts = score.to_json()
    return int(counts["killed"] < counts["mutants"] or counts["named"] < 0.9 * counts["mutants"]
               or counts["false_alarms"] > 0)


def print_score(score):
    """Print what the suite made of each mutant, and the score."""
    console, counts = Console(), score.to_json()
    table = Table(title="Classic bugs, planted one at a time", title_justify="left", box=SIMPLE_HEAD,
                  padding=(0, 1, 0, 0))
    for heading in ("bug", "planted", "seen", "named", "diagnosis"):
        table.add_column(heading)
    for row in score.rows:
        marks = ("yes" if row[what] else "[bold red]no[/]" for what in ("killed", "named"))
        table.add_row(str(row["bug"]), escape(row["words"]), *marks, escape(row["diagnosis"]))
    console.print(table)
    for alarm in score.false_alarms:
        console.print(f"false alarm: {escape(alarm)}", style="bold red")
    console.print(f"{counts['killed']} of {counts['mutants']} seen, {counts['named']} named; {counts['false_alarms']} "
                  f"false alarms over {score.configurations} correct implementations")


if __name__ == "__main__":
    sys.exit(main())
