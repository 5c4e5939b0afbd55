"""Train without barriers, with and without a straggler: throughput, staleness, bytes, loss; a report with pictures.

python -m refimpl experiment consistency [--quick]: trainings that are done, with the same settings and code, are kept.
"""

import sys

from refimpl.cli.tables import console, table_of
from refimpl.cli.values import nonempty

HELP = "consistencies beside each other, with a straggler: throughput, staleness, loss"


def add(parser):
    """Add the options."""
    parser.add_argument("--quick", action="store_true", default=False, help="few steps, once: three minutes")
    parser.add_argument("--output", type=nonempty, default="runs/experiment-consistency", metavar="DIR",
                        help="where results, pictures and report.md go (default runs/experiment-consistency)")
    parser.add_argument("--any-version", action="store_true", default=False,
                        help="keep results of other versions of the code, too")


def run(given: dict) -> int:
    """Run the trainings that are not done yet; print what was found. Status 1: a training failed."""
    from refimpl.experiments.consistency.report import run_experiment
    from refimpl.experiments.parallax.report import WORDS

    report, sections, failed = run_experiment(given["output"], given["quick"], given["any_version"])
    out = console(150)
    for section in sections:
        for table in section.tables:
            out.print(table_of(table.title, table.columns, table.rows, WORDS, title_justify="left"))
        for sentence in section.sentences:
            out.print(sentence)
    print(f"report: {report}")
    for line in failed:
        print(f"refimpl: error: failed: {line}", file=sys.stderr)
    return 1 if failed else 0
