"""From a cell's result to the numbers that people compare."""

from dataclasses import dataclass

import numpy as np

from refimpl.experiments.parallax.cells.cell import Cell


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
    out, into = (max(np.sum([counts for counts in result["crossed"][way].values()] or [[0]], axis=0).tolist())
                 for way in ("sent", "received"))
    return Summary(cell, seconds, float(np.ptp(times)) / seconds, result["examples"] / seconds, round(out), round(into),
                   result["cpu_seconds"] / (cores * float(times.mean())), result)


def by_cell(cells, results: dict, cores: int) -> list[Summary]:
    """Return the summaries of the cells that have a result, in order. Local."""
    return [summarise(cell, results[cell.file], cores) for cell in cells if cell.file in results]
