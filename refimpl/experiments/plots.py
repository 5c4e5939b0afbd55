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
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot

    counts = np.array([sample["partitions"] for sample in found["samples"]], float)
    figure, axes = pyplot.subplots(figsize=(7, 4.2), layout="constrained")
    seconds = np.array([sample["seconds"] for sample in found["samples"]])
    axes.plot(counts, 1e3 * seconds, "o", color=STYLES[2][0], label="measured")
    if found["theta"] is not None:
        constant, shared, each = (1e3 * theta for theta in found["theta"])
        curve = np.geomspace(counts.min(), counts.max(), 200)
        axes.plot(curve, constant + shared / curve + each * curve, color=STYLES[0][0],
                  label=f"{constant:.4g} + {shared:.4g} / P + {each:.4g} P")
    axes.axvline(found["chosen"], linestyle="--", color=STYLES[1][0], label=f"chosen: {found['chosen']}")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("partitions P of a sparse variable")
    axes.set_ylabel("milliseconds of a step")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return path
