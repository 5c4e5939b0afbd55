"""The written comparison with the paper: every finding's tables, sentences and plots as one Markdown file."""

from datetime import date
from pathlib import Path

from models.workload import Workload
from refimpl.experiments.parallax.cells.cell import code_version
from refimpl.experiments.parallax.proportions import ASSUMPTIONS, PAPER, computation_to_dense, rows_to_dense
from refimpl.experiments.parallax.study import Context, Finding, Table
from refimpl.pictures.plots import plot_curves

WORDS = ("model", "architecture", "ratio", "straggler", "consistency", "network", "layer", "mesh", "size")
"""Columns of words; all others are numbers, which stand to the right."""

HEAD = """# The paper's experiment on an emulated cluster

Parallax (EuroSys '19) reports up to 6.02 times Horovod's speed and 2.8 times TensorFlow's on NLP models with 48 GPUs
on 8 machines, and on image models Horovod's speed and 1.53 times TensorFlow's (abstract). Here 8 machines of 6 ranks
are 48 processes of one machine with {cores} core{s}: a network namespace a machine, a token bucket on each cable, real
TCP between.

"replayed" means: every exchange is real (ids, sizes, packets, merging, updating), while a microbatch's forward and
backward pass sleep as long as they took alone, times a stated slowdown. Speeds are in the emulation's slow time: only
their ratios mean something.
"""


def write_report(directory: Path, findings: list[Finding], context: Context, failed: list[str], names) -> Path:
    """Write report.md and the plots into the directory; return its path. Local.

    names: the experiments in order. Each finding's section is kept in a file: of experiments that are not among the
    findings the report holds what an earlier run has left there, with the day and the code it is of.
    """
    quick = " --quick: small clusters and few steps, good for a look, not for conclusions." if context.quick else ""
    made = f"*Written {date.today().isoformat()} by code {code_version()}.{quick}*\n"
    for finding in findings:
        _section_file(directory, finding.name).write_text(f"{section(finding, directory)}\n{made}")
    parts = [HEAD.format(cores=context.cores, s="s" if context.cores > 1 else "")]
    parts += [path.read_text() for path in (_section_file(directory, name) for name in names) if path.exists()]
    parts += [proportions(context), "## Assumptions\n", "\n".join(f"- {line}" for line in ASSUMPTIONS) + "\n"]
    if failed:
        parts += ["## Cells that failed\n", "\n".join(f"- {line}" for line in failed) + "\n"]
    path = directory / "report.md"
    path.write_text("\n".join(parts))
    return path


def _section_file(directory, name) -> Path:
    return directory / f"section-{name}.md"


def section(finding: Finding, directory: Path) -> str:
    """Return a finding's part of the report; write its plots into the directory. Local."""
    parts = [f"## {finding.title}\n", *(markdown(table) for table in finding.tables)]
    parts += [f"{sentence}\n" for sentence in finding.sentences]
    parts += [f"![{finding.title}]({path.name})\n" for path in plot_curves(finding.name, finding.curves, directory)]
    return "\n".join(parts)


def markdown(table: Table) -> str:
    """Return a table as Markdown, numbers to the right."""
    rule = ["---" if column in WORDS else "---:" for column in table.columns]
    lines = [f"**{table.title}**", "", *(f"| {' | '.join(row)} |" for row in (table.columns, rule, *table.rows))]
    return "\n".join(lines) + "\n"


def proportions(context: Context) -> str:
    """Return the section that holds our proportions beside the paper's."""
    rows = []
    for model, paper in PAPER.items():
        if (profile := context.profiles.get(model)) is None:
            continue
        ours = Workload(**profile.workload).make_model()
        dense, sparse = (sum(v.size for v in ours.variables if v.sparse == kind) for kind in (False, True))
        rows.append([model, f"{paper.dense:,}", f"{dense:,}", f"{paper.sparse:,}", f"{sparse:,}",
                     f"{paper.row_elements / paper.dense:.2f}", f"{rows_to_dense(profile, ours):.2f}",
                     f"{computation_to_dense(model):.1f}", f"{1e3 * profile.mean_seconds:.2f}"])
    if not rows:
        return ""
    table = Table("The paper's sizes and ours", ["model", "dense, paper", "ours", "sparse, paper", "ours",
                  "a worker's rows / dense, paper", "ours", "computation / dense on a card",
                  "ours computes alone, ms"], rows)
    return ("## Proportions\n\n" + markdown(table) + "\nThe slowdown of a replay makes the last but one column ours, "
            "too: replayed seconds = that x our dense bytes / the card's rate.\n")
