"""Run an experiment: the paper's, training without barriers, a mesh; what is done already is kept.

python -m refimpl experiment {parallax,consistency,mesh}: each is a file here with ``add`` and ``run``, as
commands are.
"""

import importlib
import sys

from refimpl.cli.tables import console, table_of
from refimpl.cli.values import nonempty
from refimpl.experiments.cells.report import WORDS

NAMES = {name: f"{__package__}.{name}" for name in ("parallax", "consistency", "mesh")}
HELP = f"an experiment: {', '.join(NAMES)}"
REFUSALS = (ValueError, OSError, RuntimeError)  # ClusterError and LaunchError are RuntimeErrors


def add(parser):
    """Add the experiments, each with its own options."""
    names = parser.add_subparsers(dest="name", required=True, metavar="{" + ",".join(NAMES) + "}")
    for name, module in NAMES.items():
        one = importlib.import_module(module)
        one.add(names.add_parser(name, help=one.HELP, description=one.__doc__.partition("\n")[0]))


def common(parser, name: str, quick: str):
    """Add the options that all have. quick: what --quick does."""
    parser.add_argument("--quick", action="store_true", default=False, help=quick)
    parser.add_argument("--output", type=nonempty, default=f"runs/experiment-{name}", metavar="DIR",
                        help=f"where report.md and what belongs to it go (default runs/experiment-{name})")


def keeps(parser):
    """Add the option of those whose results are kept."""
    parser.add_argument("--any-version", action="store_true", default=False,
                        help="keep results of other versions of the code, too")


def show(report, findings, failed=()) -> int:
    """Print every finding, and each cell that failed; return the status: 1 if one did."""
    out = console(150)
    for finding in findings:
        for table in finding.tables:
            out.print(table_of(table.title, table.columns, table.rows, WORDS, title_justify="left"))
        for sentence in finding.sentences:
            out.print(sentence, highlight=False)
    print(f"report: {report}")
    for line in failed:
        print(f"refimpl: error: failed: {line}", file=sys.stderr)
    return 1 if failed else 0


def run(given: dict) -> int:
    """Run the one that was asked for; return its status."""
    return importlib.import_module(NAMES[given.pop("name")]).run(given)
