"""The experiment: its studies, and what its report says before and after them."""

import sys
from functools import partial
from pathlib import Path

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.finding import Finding
from refimpl.experiments.cells.proportions import slowdown_of
from refimpl.experiments.cells.report import opened, run_studies
from refimpl.experiments.cells.run import Runner
from refimpl.experiments.cluster import ClusterError, missing
from refimpl.experiments.consistency.settings import SLOW_RATE
from refimpl.experiments.consistency.study import REPLAYED, learning, real_cells, replayed_cells, throughput

SOURCES = ("refimpl/plain/consistencies.py", "refimpl/plain/corrections.py", "refimpl/experiments/consistency/job.py",
           "refimpl/experiments/consistency/once.py")
HEAD = """# Training without barriers, measured

{ranks} workers, each also an owner of a part of the variables, train the language model in the paper's proportions
(`{workload}`), on an emulated cluster of {ranks} machines whose cables carry {rate} each way: real letters over real
TCP, while computation is replayed: {seconds:.0f} ms a step. One worker may be a straggler: it computes 3 times as long,
or its cable carries {slow_rate}.

- **throughput**: words a second while all workers are at work; gradients that owners drop do not count
- **staleness**: an owner's updates between a worker's pull and its push; "of a row": those that touched that row
- **sent**: payload bytes that leave a worker's machine in a step: its own row numbers and gradients, and what its owner
  answers
"""
FOOT = """## What is assumed

- The straggler's network is as quick as the others' when it computes longer, and the other way round.
- `synchronous` exchanges while it computes, where the trainer chooses to.
- dc-asgd is asynchronous with delay-compensated gradients.
- Real computation runs on the cores that all ranks share: its seconds are this machine's.
"""


def run_experiment(output, quick: bool = False, any_version: bool = False) -> tuple[Path, list[Finding], list[str]]:
    """Run what has no result yet, write the report; return (report, findings, cells that failed). Local.

    Raises ClusterError where this machine cannot emulate a cluster, ValueError for a directory that cannot be made.
    """
    if problem := missing():
        raise ClusterError(problem)
    directory = opened(output)
    runner = Runner(directory, "refimpl.experiments.consistency.job", SOURCES, any_version,
                    partial(print, file=sys.stderr, flush=True))
    first = replayed_cells(quick, 1.0)[0]
    alone = runner.profile(REPLAYED, first.ranks).mean_seconds
    slowdown = slowdown_of(REPLAYED, first.rate, alone)
    cells = {throughput: replayed_cells(quick, slowdown), learning: real_cells(quick)}
    studies = {study.__name__: partial(lambda study, some: study(some, runner.results(some)), study, some)
               for study, some in cells.items()}
    report, findings = run_studies(directory, studies, studies, partial(head_of, first, alone * slowdown),
                                   lambda: FOOT, runner.failed, quick)
    return report, findings, runner.failed


def head_of(cell: Cell, seconds: float) -> str:
    """Return what the report begins with. seconds: of a replayed microbatch. Local."""
    return HEAD.format(ranks=cell.ranks, workload=cell.workload, rate=cell.rate, slow_rate=SLOW_RATE,
                       seconds=1e3 * seconds)
