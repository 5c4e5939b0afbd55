"""Plots of run directories as PNG files, in the style of all pictures."""

from pathlib import Path

from refimpl.pictures.picture import figure_in_style, line_style
from refimpl.training.run.directory import read_metrics

WIDTHS = (3.2, 2.2, 1.6, 1.2)
"""Of the lines: equal curves lie on one another and are all still seen."""


def plot_losses(runs: dict[str, Path], path: Path) -> Path:
    """Draw the training loss of each run (name -> run directory) over its steps into a PNG; return its path. Local."""
    with figure_in_style() as (figure, axes):
        for number, ((name, directory), width) in enumerate(zip(runs.items(), WIDTHS)):
            records = read_metrics(directory)
            steps, losses = [r["step"] for r in records], [r["loss"] for r in records]
            axes.plot(steps, losses, **{**line_style(number), "linewidth": width}, label=name)
        axes.set(xlabel="step", ylabel="training loss (nats)")
        axes.legend(title="architecture")
        figure.savefig(path, dpi=150)
    return path


def plot_partition_search(found: dict, path: Path) -> Path:
    """Draw samples and fitted curve of a partition search into a PNG; return its path. Local.

    found: see ``PartitionTrials.to_json``.  x: P, logarithmic; y: milliseconds of a step.
    """
    from refimpl.pictures.search import draw_search_on

    with figure_in_style() as (figure, axes):
        draw_search_on(axes, found)
        figure.savefig(path, dpi=150)
    return path
