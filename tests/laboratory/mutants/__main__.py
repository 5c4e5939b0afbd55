"""Plant every classic bug, try correct implementations, print what the suite makes of them: ``make test-mutants``."""

import argparse
import sys

from rich.markup import escape

from mutants.run import run_mutants
from refimpl.cli.told.tables import console, table_of


def main(arguments=None) -> int:
    """Return 0 if all bugs are seen, 90 % are named and nobody is accused; 1 otherwise. Local."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="default 4")
    parser.add_argument("--configurations", type=int, default=200, metavar="N",
                        help="correct implementations to try (default 200)")
    asked = parser.parse_args(arguments)
    score = run_mutants(asked.ranks, asked.configurations)
    out, counts, headings = console(), score.to_json(), ("bug", "planted", "seen", "named", "diagnosis")
    marks = {True: "yes", False: "[bold red]no[/]"}
    rows = [(str(row["bug"]), escape(row["words"]), marks[row["killed"]], marks[row["named"]], escape(row["diagnosis"]))
            for row in score.rows]
    out.print(table_of("Classic bugs, planted one at a time", headings, rows, headings, title_justify="left"))
    for alarm in score.false_alarms:
        out.print(f"false alarm: {escape(alarm)}", style="bold red")
    out.print(f"{counts['killed']} of {counts['mutants']} seen, {counts['named']} named; {counts['false_alarms']} "
              f"false alarms over {score.configurations} correct implementations")
    return int(counts["killed"] < counts["mutants"] or counts["named"] < 0.9 * counts["mutants"]
               or counts["false_alarms"] > 0)


if __name__ == "__main__":
    sys.exit(main())
