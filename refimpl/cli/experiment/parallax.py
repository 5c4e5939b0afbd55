"""Run the paper's experiment on an emulated cluster: tables, plots and a written comparison with the paper.

python -m refimpl experiment parallax [--quick]: cells that are done, with the same settings and code, are kept, so that
it can be interrupted and started again.
"""

import sys

from refimpl.cli.tables import console, table_of
from refimpl.cli.values import nonempty
from refimpl.experiments.parallax import EXPERIMENTS

HELP = "the paper's experiment on an emulated cluster"


def add(parser):
    """Add the options."""
    parser.add_argument("--quick", action="store_true", default=False,
                        help="small clusters and few steps: a few minutes")
    parser.add_argument("--compute", choices=["real", "replay"], default=None,
                        help="real: every rank computes; replay: it sleeps as long as the computation took alone, and "
                        "exchanges the real rows (default: replay where ranks are many, see the report)")
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="run only this one (repeatable)")
    parser.add_argument("--output", type=nonempty, default="runs/experiment-parallax", metavar="DIR",
                        help="where results, plots and report.md go (default runs/experiment-parallax)")
    parser.add_argument("--any-version", action="store_true", default=False,
                        help="keep results of other versions of the code, too")


def run(given: dict) -> int:
    """Run the experiments that are not done yet; print every finding. Status 1: a cell failed."""
    from refimpl.experiments.parallax.everything import run_experiments
    from refimpl.experiments.parallax.report import WORDS

    report, findings, failed = run_experiments(given["output"], given.get("only") or EXPERIMENTS, given["quick"],
                                               given["compute"], given["any_version"])
    out = console(140)
    for finding in findings:
        for table in finding.tables:
            out.print(table_of(table.title, table.columns, table.rows, WORDS, title_justify="left"))
        for sentence in finding.sentences:
            out.print(sentence)
    print(f"report: {report}")
    for line in failed:
        print(f"refimpl: error: failed: {line}", file=sys.stderr)
    return 1 if failed else 0
