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
    found, alarms = run_mutants(asked.ranks, asked.configurations)
    out, headings = console(), ("bug", "planted", "seen", "named", "diagnosis")
    seen, named = (sum(row[what] for row in found) for what in ("killed", "named"))
    marks = {True: "yes", False: "[bold red]no[/]"}
    rows = [(str(row["bug"]), escape(row["words"]), marks[row["killed"]], marks[row["named"]], escape(row["diagnosis"]))
            for row in found]
    out.print(table_of("Classic bugs, planted one at a time", headings, rows, headings, title_justify="left"))
    for alarm in alarms:
        out.print(f"false alarm: {escape(alarm)}", style="bold red")
    out.print(f"{seen} of {len(found)} seen, {named} named; {len(alarms)} false alarms over {asked.configurations} "
              "correct implementations")
    return int(seen < len(found) or named < 0.9 * len(found) or bool(alarms))


if __name__ == "__main__":
    sys.exit(main())
