"""Plots as files, for the command line, in the style of all pictures."""

from pathlib import Path

from refimpl.collectives.units import size_name
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


def plot_bandwidths(rows: list[dict], path) -> Path:
    """Draw bus bandwidth over size, one panel for each work; return the path. Local. rows: of ``bench allreduce``."""
    works = list(dict.fromkeys(r["work"] for r in rows))
    with figure_in_style(6 * len(works), 4.2, ncols=len(works), squeeze=False) as (figure, panels):
        for axes, work in zip(panels[0], works):
            some = [r for r in rows if r["work"] == work]
            for number, name in enumerate(dict.fromkeys(r["name"] for r in some)):
                line = [(r["bytes"], r["bus_bandwidth"] / 1e9) for r in some if r["name"] == name]
                axes.plot(*zip(*line), marker="o", label=name, **line_style(number))
            ticks = sorted({r["bytes"] for r in some})
            axes.set(xscale="log", yscale="log", title=work, xlabel="vector", ylabel="bus bandwidth (GB/s)")
            axes.set_xticks(ticks, [size_name(n) for n in ticks], rotation=45, minor=False)
            axes.legend()
        figure.savefig(path, dpi=150)
    return Path(path)
