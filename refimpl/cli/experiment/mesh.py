"""Measure and predict hybrid data and model parallelism beside SplitBrain and Das et al.; a report with each part.

python -m refimpl experiment mesh [--quick] [--only PART]: the report keeps the parts of earlier runs.
"""

import importlib
from functools import partial

from refimpl.cli.experiment import common, show
from refimpl.experiments.mesh import HEAD, PARTS

HELP = "hybrid data and model parallelism beside SplitBrain and Das et al."


def add(parser):
    """Add the options."""
    common(parser, "mesh", "small clusters and few steps")
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part (repeatable)")


def run(given: dict) -> int:
    """Run the parts; print every finding."""
    from refimpl.experiments.cells.report import opened, run_studies

    def study(name):
        return importlib.import_module(f"refimpl.experiments.mesh.{name}").study(given["quick"])

    return show(*run_studies(opened(given["output"]), {name: partial(study, name) for name in PARTS},
                             given.get("only") or PARTS, lambda: HEAD, quick=given["quick"]))
