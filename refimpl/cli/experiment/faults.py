"""Make hostile trials and count: signals at random moments, damaged files, models that lie; each on 3 ranks.

python -m refimpl experiment faults --trials 1000 --seed 0: trials that are done, with the same code, are kept, so that
it can be interrupted and started again; --only NUMBER repeats one.
"""

import shlex
import sys
from pathlib import Path

from refimpl.cli.tables import console, table_of
from refimpl.cli.values import nonempty, whole
from refimpl.experiments.faults import KINDS

HELP = "hostile trials: signals, damaged files, models that lie; no hang, no silent acceptance"


def add(parser):
    """Add the options."""
    parser.add_argument("--trials", type=whole(), default=100, metavar="N",
                        help="how many (default 100): numbers 0 to N - 1")
    parser.add_argument("--seed", type=int, default=0, help="of the trials: with its number it says what is done")
    parser.add_argument("--only", type=whole(0), action="append", metavar="NUMBER", default=None,
                        help="run this trial anew, and no other (repeatable)")
    parser.add_argument("--kind", choices=KINDS, action="append", default=None,
                        help="only trials of this kind (repeatable)")
    parser.add_argument("--jobs", type=whole(), default=2, metavar="J",
                        help="so many jobs of 3 ranks at once (default 2)")
    parser.add_argument("--python", action="append", default=[], metavar="FILE",
                        help="another environment's Python, whose MPI is another one: trials take turns (repeatable)")
    parser.add_argument("--output", type=nonempty, default="runs/experiment-faults", metavar="DIR",
                        help="where trials.jsonl and report.md go (default runs/experiment-faults)")
    parser.add_argument("--any-version", action="store_true", default=False,
                        help="keep trials of other versions of the code, too")


def run(given: dict) -> int:
    """Run the trials that are not done yet; print the count and each failed trial. Status 1: one failed."""
    from refimpl.experiments.faults.report import HEADINGS, again, failures, rows_of, write_report
    from refimpl.experiments.faults.run import run_trials
    from refimpl.experiments.faults.trial import draw

    output = Path(given["output"])
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--output {output}: {problem.strerror}: name a directory that can be made here") from problem
    seed, kinds, only = given["seed"], tuple(given["kind"] or KINDS), given["only"]
    numbers = only or [n for n in range(given["trials"]) if draw(seed, n).kind in kinds]
    outcomes = run_trials(output, numbers, seed, jobs=given["jobs"], pythons=given["python"],
                          anew=only is not None, any_version=given["any_version"],
                          say=lambda line: print(line, file=sys.stderr, flush=True))
    failed = [outcome for outcome in outcomes if outcome.faults]
    if only:
        for outcome in outcomes:
            print(f"{outcome.trial.name}: {outcome.end}, {outcome.seconds:.1f} s; {outcome.words}")
    else:
        path = write_report(output, outcomes, shlex.join(["python", "-m", "refimpl", *sys.argv[1:]]))
        console(150).print(table_of(f"{len(outcomes)} hostile trials on 3 ranks, seed {seed}", HEADINGS,
                                    rows_of(outcomes), HEADINGS[:1]))
        print(f"report: {path}")
    for outcome, line in zip(failed, failures(failed)):
        print(f"refimpl: error: failed: {line}\n  {again(outcome)}", file=sys.stderr)
    return 1 if failed else 0
