"""Run the paper's experiment on an emulated cluster: tables, plots and a written comparison with the paper.

python -m refimpl experiment parallax [--quick]: cells that are done, with the same settings and code, are kept, so that
it can be interrupted and started again.
"""

from refimpl.cli.experiment import common, keeps, show
from refimpl.experiments.parallax import EXPERIMENTS

HELP = "the paper's experiment on an emulated cluster"


def add(parser):
    """Add the options."""
    common(parser, "parallax", "small clusters and few steps: a few minutes")
    keeps(parser)
    parser.add_argument("--compute", choices=["real", "replay"], default=None,
                        help="real: every rank computes; replay: it sleeps as long as the computation took alone, and "
                        "exchanges the real rows (default: replay where ranks are many, see the report)")
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="run only this one (repeatable)")


def run(given: dict) -> int:
    """Run the experiments that are not done yet; print every finding. Status 1: a cell failed."""
    from refimpl.experiments.parallax.everything import run_experiments

    return show(*run_experiments(given["output"], given.get("only") or EXPERIMENTS, given["quick"], given["compute"],
                                 given["any_version"]))
