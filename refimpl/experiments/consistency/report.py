"""The written report: each section's table, sentences and pictures, as one Markdown file; and the way there."""

import sys
from datetime import date
from functools import partial
from pathlib import Path

from refimpl.experiments.cluster import ClusterError, missing
from refimpl.experiments.consistency.cells import Cell
from refimpl.experiments.consistency.runner import ConsistencyRunner
from refimpl.experiments.consistency.study import REPLAYED, Section, learning, real_cells, replayed_cells, throughput
from refimpl.experiments.parallax.proportions import slowdown_of
from refimpl.experiments.parallax.report import markdown

HEAD = """# Training without barriers, measured

*Written {day} by code {code}.{quick}*

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


def run_experiment(output, quick: bool = False, any_version: bool = False) -> tuple[Path, list[Section], list[str]]:
    """Run what has no result yet, write the report; return (report, sections, cells that failed). Local.

    Raises ClusterError where this machine cannot emulate a cluster, ValueError for a directory that cannot be made.
    """
    if problem := missing():
        raise ClusterError(problem)
    directory = Path(output)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"--output {output}: cannot make this directory: {problem.strerror}") from problem
    runner = ConsistencyRunner(directory, any_version, partial(print, file=sys.stderr, flush=True), ())
    replayed = replayed_cells(quick, 1.0)
    alone = runner.profile(REPLAYED, replayed[0].ranks).mean_seconds
    slowdown = slowdown_of(REPLAYED, replayed[0].rate, alone)
    replayed, real = replayed_cells(quick, slowdown), real_cells(quick)
    sections = [throughput(replayed, runner.results(replayed)), learning(real, runner.results(real))]
    head = head_of(replayed[0], runner.code, quick, alone * slowdown)
    return write_report(directory, head, sections, runner.failed), sections, runner.failed


def head_of(cell: Cell, code: str, quick: bool, seconds: float) -> str:
    """Return what the report begins with. seconds: of a replayed microbatch. Local."""
    return HEAD.format(day=date.today().isoformat(), code=code, ranks=cell.ranks, workload=cell.workload,
                       rate=cell.rate, slow_rate=cell.slow_rate, seconds=1e3 * seconds,
                       quick=" --quick: few steps, once; good for a look, not for conclusions." if quick else "")


def write_report(directory: Path, head: str, sections: list[Section], failed: list[str]) -> Path:
    """Write report.md and the pictures into the directory; return its path. Local."""
    parts = [head]
    for section in sections:
        parts += [f"## {section.title}\n", *map(markdown, section.tables)]
        parts += [f"{sentence}\n" for sentence in section.sentences]
        for name, picture in section.pictures.items():
            parts.append(f"![{picture.alt}]({picture.save(directory / f'{name}.svg').name})\n")
    parts.append(FOOT)
    if failed:
        parts += ["## Cells that failed\n", "\n".join(f"- {line}" for line in failed) + "\n"]
    path = directory / "report.md"
    path.write_text("\n".join(parts), encoding="utf-8")
    return path
