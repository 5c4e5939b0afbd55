"""Make hostile trials and count: signals at random moments, damaged files, models that lie; each on 3 ranks.

    make test-faults                                                  1,000 trials
    PYTHONPATH=tests/laboratory python -m faults --only 17            repeat one
"""

import argparse
import shlex
import sys
from pathlib import Path

from faults import KINDS
from faults.report import HEADINGS, again, failures, rows_of, write_report
from faults.run import run_trials
from faults.trial import draw
from refimpl.cli.told.tables import console, table_of
from refimpl.cli.asked.values import whole


def main(arguments=None) -> int:
    """Make the trials; print the count and each failed trial. Return 1 if one failed. Local."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=whole(), default=100, metavar="N",
                        help="how many (default 100): numbers 0 to N - 1")
    parser.add_argument("--seed", type=int, default=0, help="of the trials: with its number it says what is done")
    parser.add_argument("--only", type=whole(0), action="append", metavar="NUMBER", help="this trial (repeatable)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="trials of this kind (repeatable)")
    parser.add_argument("--jobs", type=whole(), default=2, metavar="J", help="jobs of 3 ranks at once (default 2)")
    parser.add_argument("--python", action="append", default=[], metavar="FILE",
                        help="another environment's Python, whose MPI is another one: trials take turns (repeatable)")
    parser.add_argument("--output", type=Path, default=Path("runs/faults"), metavar="DIR",
                        help="where report.md goes (default runs/faults)")
    asked = parser.parse_args(arguments)
    try:
        asked.output.mkdir(parents=True, exist_ok=True)
        numbers = asked.only or [n for n in range(asked.trials) if draw(asked.seed, n).kind in (asked.kind or KINDS)]
        outcomes = run_trials(asked.output, numbers, asked.seed, jobs=asked.jobs, pythons=asked.python,
                              say=lambda line: print(line, file=sys.stderr, flush=True))
    except (OSError, RuntimeError) as problem:
        print(f"faults: error: {problem}", file=sys.stderr)
        return 1
    path = write_report(asked.output, outcomes, shlex.join(["python", "-m", "faults", *sys.argv[1:]]))
    console(150).print(table_of(f"{len(outcomes)} hostile trials on 3 ranks, seed {asked.seed}", HEADINGS,
                                rows_of(outcomes), HEADINGS[:1]))
    print(f"report: {path}")
    failed = [outcome for outcome in outcomes if outcome.faults]
    for outcome, line in zip(failed, failures(failed)):
        print(f"faults: error: failed: {line}\n  {again(outcome)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
