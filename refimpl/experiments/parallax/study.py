"""What the experiments share: what they are given, and what each hands back for the report."""

import os
from dataclasses import dataclass, field

from refimpl.experiments.parallax.cells.run import Runner


@dataclass
class Context:
    """What an experiment is given. quick: fewer and smaller cells.  compute: "real" or "replay" for all cells, or None
    for each one's own.  microbatches: of a profile, at least as many as the largest cell has ranks.
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


@dataclass(frozen=True)
class Table:
    """A titled table of strings."""

    title: str
    columns: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Finding:
    """What an experiment found. sentences: of the report.  curves: (title, x, y, {line: [(x, y)]}), a plot each."""

    name: str
    title: str
    tables: list[Table]
    sentences: list[str] = field(default_factory=list)
    curves: list = field(default_factory=list)


def speed_of(summary) -> str:
    """Return a speed for a table, "-" for a cell that has no result."""
    return "-" if summary is None else f"{summary.speed:,.0f}" if summary.speed >= 100 else f"{summary.speed:.1f}"


def bytes_of(count: float) -> str:
    """Return bytes as people read them."""
    return f"{count / 1e6:.2f} MB"
