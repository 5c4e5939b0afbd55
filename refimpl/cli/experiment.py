"""Run an experiment: python -m refimpl experiment NAME [--quick].

If it is interrupted and started again, it keeps the trainings with the same settings and code, and the report's parts.
"""

import importlib
import sys
from functools import partial

from refimpl.cli.told.tables import console, table_of
from refimpl.cli.asked.values import nonempty
from refimpl.experiments import channel, compression, mesh, parallax, svm, trees
from refimpl.experiments.cells.report import WORDS, Experiment, opened

ABOUT = {
    "parallax": ("the paper's experiment on an emulated cluster",
                 "Run the paper's experiment on an emulated cluster: tables, plots and a written comparison with the "
                 "paper.",
                 "small clusters and few steps: a few minutes"),
    "consistency": ("compare consistencies, with and without a straggler: throughput, staleness, loss",
                    "Train without barriers, with and without a straggler: throughput, staleness, bytes, loss; a "
                    "report with pictures.", "few steps, once: three minutes"),
    "mesh": ("data and model parallelism together, compared with SplitBrain and Das et al.",
             "Measure and predict data and model parallelism together, and compare with SplitBrain and Das et al.; "
             "the report has a section for each part.", "small clusters and few steps"),
    "trees": ("packed trees on all allocations of a DGX-1, compared with rings and Blink's figures",
              "Pack trees into every allocation of a DGX-1P and a DGX-1V, compare them with the best rings, and sum "
              "over emulated machines that are connected like some of them.",
              "allocations of at most 5 GPUs; 3 over machines"),
    "channel": ("a tensor channel beside gRPC and MPI's messages",
                "Send tensors of 8 B to 64 MiB through a tensor channel, by MPI's messages and by gRPC, on one machine "
                "and between two emulated ones; count what a step of the language model calls over each channel.",
                "three sizes, few turns, 4 ranks"),
    "compression": ("encoded gradients beside float32 and PyTorch's hooks",
                    "Train with encoded gradients, with float32 and with PyTorch's fp16 and PowerSGD hooks in turns on "
                    "emulated machines. The report tells the parts of a step, and the bytes until a given held-out "
                    "loss.",
                    "one rate, few steps"),
    "svm": ("support vector machines: computation that is saved, beside Vishnu et al.'s figures",
            "Count kernel evaluations, rounds and bytes of support vector machines with each heuristic of elimination, "
            "second order, a cache and blocks; predict them for up to 4,096 ranks.", "600 samples of each set"),
}
"""Experiment -> (its help, what it does, what --quick does)."""
_PACKAGES = {"parallax": parallax, "mesh": mesh, "trees": trees, "channel": channel, "compression": compression,
             "svm": svm}
PARTS = {name: (*package.PARTS,) for name, package in _PACKAGES.items()}
"""Experiment -> the parts of its report."""
REFUSALS = (ValueError, OSError, RuntimeError)  # ClusterError and LaunchError are RuntimeErrors


def add(parser):
    """Add the experiments, each with its own options."""
    names = parser.add_subparsers(dest="name", required=True, metavar="{" + ",".join(ABOUT) + "}")
    for name, (about, description, quick) in ABOUT.items():
        one = names.add_parser(name, help=about, description=description)
        one.add_argument("--quick", action="store_true", default=False, help=quick)
        one.add_argument("--output", type=nonempty, default=f"runs/experiment-{name}", metavar="DIR",
                         help=f"where report.md and what belongs to it go (default runs/experiment-{name})")
        if name == "parallax":
            one.add_argument("--compute", choices=["real", "replay"], default=None,
                             help="real: every rank computes; replay: it sleeps as long as the computation took alone, "
                             "and exchanges the real rows (default: replay where ranks are many, see the report)")
        if name in PARTS:
            one.add_argument("--only", choices=PARTS[name], action="append", help="run only this part (repeatable)")


def run(given: dict) -> int:
    """Run the parts that are not done yet; print every finding. Status 1: a training or a cell failed."""
    experiment = {"parallax": _parallax, "consistency": _consistency}.get(given["name"], _of_parts)(given)
    return show(*experiment.run(given.get("only"), given["quick"]), experiment.failed)


def _parallax(given) -> Experiment:
    from refimpl.experiments.parallax.everything import make_experiment

    return make_experiment(given["output"], given.get("only") or parallax.PARTS, given["quick"], given["compute"])


def _consistency(given) -> Experiment:
    from refimpl.experiments.consistency.study import make_experiment

    return make_experiment(given["output"], given["quick"])


def _of_parts(given) -> Experiment:
    name = given["name"]
    studies = {part: partial(_study, name, part, given["quick"]) for part in PARTS[name]}
    return Experiment(opened(given["output"]), studies, _PACKAGES[name].HEAD)


def _study(name, part, quick):
    """Return the finding of a part. A part has its own module, or one that takes the part's name."""
    module = part if name == "mesh" or part == "packets" else "study"
    study = importlib.import_module(f"refimpl.experiments.{name}.{module}").study
    return study(quick) if module == part else study(part, quick)


def show(report, findings, failed) -> int:
    """Print every finding, and each cell that failed; return the status, 1 if a cell failed."""
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
