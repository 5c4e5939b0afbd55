"""Measure and predict hybrid data and model parallelism beside SplitBrain and Das et al.; a report with each part.

python -m refimpl experiment mesh [--quick] [--only PART]: the report keeps the parts of earlier runs.
"""

from refimpl.cli.tables import console, table_of
from refimpl.cli.values import nonempty
from refimpl.experiments.mesh import PARTS

HELP = "hybrid data and model parallelism beside SplitBrain and Das et al."


def add(parser):
    """Add the options."""
    parser.add_argument("--quick", action="store_true", default=False, help="small clusters and few steps")
    parser.add_argument("--only", choices=PARTS, action="append", help="run only this part (repeatable)")
    parser.add_argument("--output", type=nonempty, default="runs/experiment-mesh", metavar="DIR",
                        help="where report.md and what belongs to it go (default runs/experiment-mesh)")


def run(given: dict) -> int:
    """Run the parts; print every finding."""
    from refimpl.experiments.mesh.report import run_parts
    from refimpl.experiments.parallax.report import WORDS

    report, findings = run_parts(given["output"], given.get("only") or PARTS, given["quick"])
    out = console(140)
    for finding in findings:
        for table in finding.tables:
            out.print(table_of(table.title, table.columns, table.rows, WORDS, title_justify="left"))
        for sentence in finding.sentences:
            out.print(sentence, highlight=False)
    print(f"report: {report}")
    return 0
