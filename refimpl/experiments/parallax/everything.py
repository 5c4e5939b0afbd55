"""The experiment as a whole: its studies, and the first and the last part of the comparison with the paper."""

import importlib
from functools import partial

from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.proportions import ASSUMPTIONS, PAPER, computation_to_dense, rows_to_dense
from refimpl.experiments.cells.report import Experiment, Finding, Table, markdown
from refimpl.experiments.cells.run import Runner, say
from refimpl.experiments.parallax import PARTS
from refimpl.experiments.parallax.context import Context

SIMULATED = {"paper-size"}  # these need no cluster
SOURCES = ("refimpl/experiments/parallax/ranks.py", "refimpl/experiments/parallax/plans.py")
WARM_UP = tuple(Cell("warm-up", workload, architecture, 2, 2, "1gbit", "real", steps=1, warm=0)
                for workload in workloads_for("warm-up")
                for architecture in ("hybrid", "allreduce", "naive ps"))
"""These run first with new code, so that kernels are compiled once and kept on disk, not by 48 ranks at once."""
HEAD = """# The paper's experiment on an emulated cluster

Parallax (EuroSys '19) reports up to 6.02 times Horovod's speed and 2.8 times TensorFlow's on NLP models with 48 GPUs
on 8 machines, and on image models Horovod's speed and 1.53 times TensorFlow's (abstract). Here 8 machines of 6 ranks
are 48 processes of one machine with {cores} core{s}: a network namespace a machine, a token bucket on each cable, real
TCP between.

"replayed" means: every exchange is real (ids, sizes, packets, merging, updating), while a microbatch's forward and
backward pass sleep as long as they took alone, times a stated slowdown. Speeds are in the emulation's slow time: only
their ratios mean something.
"""


def make_experiment(output, names, quick: bool = False, compute=None) -> Experiment:
    """Return the experiment. names: the parts that will be run.  compute: see ``Context``. Local.

    Raises ClusterError if this machine cannot emulate a cluster, ValueError for a directory that cannot be made.
    """
    runner = Runner(output, "refimpl.experiments.parallax.ranks", SOURCES, WARM_UP, bool(set(names) - SIMULATED))
    context = Context(runner, quick, compute, 8 if quick else 48)
    studies = {name: partial(_study, name, context) for name in PARTS}
    return Experiment(runner.directory, studies, head(context), partial(foot, context), runner.failed)


def _study(name, context) -> Finding:
    say(f"== {name}")
    return importlib.import_module(f"{__package__}.{name.replace('-', '_')}").study(context)


def head(context: Context) -> str:
    """Return the head of the report. Local."""
    return HEAD.format(cores=context.cores, s="s" if context.cores > 1 else "")


def foot(context: Context) -> str:
    """Return the end of the report: proportions and assumptions. Local."""
    return "\n".join([proportions(context), "## Assumptions\n", "\n".join(f"- {line}" for line in ASSUMPTIONS) + "\n"])


def proportions(context: Context) -> str:
    """Return the section of our proportions beside the paper's."""
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
