"""What the studies share: what they are given, and a cell in the numbers that people compare."""

import os
from dataclasses import dataclass, field

import numpy as np

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.run import Runner
from refimpl.pictures.lines import Line, plot_lines
from refimpl.pictures.picture import Picture


@dataclass(frozen=True)
class Summary:
    """A cell in a few numbers.

    seconds: median of a step.  spread: (slowest - fastest) / median.  speed: words or images a second of the real
    workload, in the emulation's time.  out, into: payload bytes a step between machines of the machine that has most.
    busy: share of the cores' time that the ranks used.
    """

    cell: Cell
    seconds: float
    spread: float
    speed: float
    out: int
    into: int
    busy: float
    result: dict


def summarise(cell: Cell, result: dict, cores: int) -> Summary:
    """Return a cell's summary. cores: of the machine that it ran on. Local."""
    times = np.array(result["step_seconds"])
    seconds = float(np.median(times))
    out, into = (max(result["crossed"][direction]) for direction in ("sent", "received"))
    return Summary(cell, seconds, float(np.ptp(times)) / seconds, result["examples"] / seconds, round(out), round(into),
                   result["cpu_seconds"] / (cores * float(times.mean())), result)


@dataclass
class Context:
    """What an experiment is given.

    quick: fewer and smaller cells.  compute: "real" or "replay" for all cells, or None for each one's own.
    microbatches: of a profile, at least as many as the largest cell has ranks.
    """

    runner: Runner
    quick: bool = False
    compute: str | None = None
    microbatches: int = 48
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    profiles: dict = field(default_factory=dict)

    def profile(self, workload, microbatches: int | None = None):
        """Return the workload's profile, measured once."""
        if workload.name not in self.profiles:
            self.profiles[workload.name] = self.runner.profile(workload, microbatches or self.microbatches)
        return self.profiles[workload.name]

    def summaries(self, cells: list[Cell]) -> list[Summary]:
        """Run the cells that have no result yet; return the summaries of those that have one then, in order."""
        results = self.runner.results(cells)
        return [summarise(cell, results[cell.file], self.cores) for cell in cells if cell.file in results]


def plotted(lines: dict[str, list], x: str, y: str, **look) -> Picture:
    """Return a plot of name -> points (x, y); a name's place says how it looks. look: of ``plot_lines``. Local."""
    return plot_lines([Line(name, *zip(*sorted(points)), style, points=name == "measured")
                       for style, (name, points) in enumerate(lines.items()) if points], x, y, f"{y} over {x}", **look)
