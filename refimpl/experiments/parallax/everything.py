"""All experiments, one after the other; after each the report is written anew: an interrupted run has one, too."""

import importlib
import sys
from functools import partial
from pathlib import Path

from refimpl.experiments.cluster import ClusterError, missing
from refimpl.experiments.parallax import EXPERIMENTS
from refimpl.experiments.parallax.cells.run import Runner
from refimpl.experiments.parallax.report import write_report
from refimpl.experiments.parallax.study import Context, Finding

SIMULATED = {"paper-size"}  # these need no cluster


def run_experiments(output, names, quick: bool = False, compute: str | None = None,
                    any_version: bool = False) -> tuple[Path, list[Finding], list[str]]:
    """Run the named experiments; return (report, findings, cells that failed). Local: the parent of all jobs.

    Raises ClusterError where this machine cannot emulate a cluster, ValueError for an unknown name.
    """
    if unknown := set(names) - set(EXPERIMENTS):
        raise ValueError(f"no experiment {', '.join(sorted(unknown))}; there are {', '.join(EXPERIMENTS)}")
    if set(names) - SIMULATED and (problem := missing()):
        raise ClusterError(problem)
    directory = Path(output)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--output {output}: cannot make this directory: {problem.strerror}") from problem
    say = partial(print, file=sys.stderr, flush=True)  # where it does not mix with what is asked for
    context = Context(Runner(directory, any_version, say), quick, compute, microbatches=8 if quick else 48)
    findings: list[Finding] = []
    for name in names:
        say(f"== {name}")
        module = importlib.import_module(f"refimpl.experiments.parallax.{name.replace('-', '_')}")
        findings.append(module.study(context))
        report = write_report(directory, findings, context, context.runner.failed, EXPERIMENTS)
    return report, findings, context.runner.failed
