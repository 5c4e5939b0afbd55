"""Plots of run directories, in one style: readable in print and for the colour-blind."""

from pathlib import Path

from refimpl.training.run_directory import read_metrics

STYLES = (("#0072b2", "-", 3.2), ("#e69f00", "--", 2.2), ("#000000", ":", 1.6), ("#009e73", "-.", 1.2))
"""Colour (Okabe & Ito), dash and width of each line: equal curves lie on one another and are all still seen."""


def plot_losses(runs: dict[str, Path], path: Path) -> Path:
    """Draw the training loss of each run (name -> run directory) over its steps into a PNG; return its path. Local."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    for (name, directory), (colour, dash, width) in zip(runs.items(), STYLES):
        records = read_metrics(directory)
        steps, losses = [r["step"] for r in records], [r["loss"] for r in records]
        axes.plot(steps, losses, dash, color=colour, linewidth=width, label=name)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss (nats)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, title="architecture")
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path


def plot_partition_search(found: dict, path: Path) -> Path:
    """Draw samples and fitted curve of a partition search into a PNG; return its path. Local.

    found: see ``PartitionTrials.to_json``.  x: P, logarithmic; y: milliseconds of a step.
    """
    from refimpl.experiments.picture import figure_in_style
    from refimpl.experiments.search_picture import draw_search_on

    with figure_in_style() as (figure, axes):
        draw_search_on(axes, found)
        figure.savefig(path, dpi=150)
    return path
