"""Plots as files, for the command line, in the style of all pictures."""

from pathlib import Path

from refimpl.pictures.picture import figure_in_style, line_style
from refimpl.training.run.directory import read_metrics

WIDTHS = (3.2, 2.2, 1.6, 1.2)
"""The styles of lines, in which equal curves on top of each other are all visible."""


def plot_losses(runs: dict[str, Path], path: Path) -> Path:
    """Draw the training loss of each run (name -> run directory) over its steps; return the path. Local."""
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
    """Draw samples and fitted curve of a partition search; return the path. Local.

    found: see ``PartitionTrials.to_json``.  x: P, logarithmic; y: milliseconds of a step.
    """
    from refimpl.pictures.plans import draw_search_on  # plans load MPI, but reading options must not

    with figure_in_style() as (figure, axes):
        draw_search_on(axes, found)
        figure.savefig(path, dpi=150)
    return path
