"""What the studies share: their context, and the summary of a cell."""

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
    workload, in the emulation's time.  out, into: payload bytes a step of the busiest machine, from and to others.
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
    """The context of an experiment.

    quick: fewer and smaller cells.  compute: "real" or "replay" for all cells; None: as each cell says.
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
        """Run the cells that have no result yet; return, in order, the summaries of all that succeeded."""
        results = self.runner.results(cells)
        return [summarise(cell, results[cell.file], self.cores) for cell in cells if cell.file in results]


def plotted(lines: dict[str, list], x: str, y: str, **look) -> Picture:
    """Return a plot of name -> points (x, y), styled by their order. look: of ``plot_lines``. Local."""
    return plot_lines([Line(name, *zip(*sorted(points)), style, points=name == "measured")
                       for style, (name, points) in enumerate(lines.items()) if points], x, y, f"{y} over {x}", **look)
