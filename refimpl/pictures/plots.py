"""Plots as files, for the command line, in the style of all pictures."""

from pathlib import Path

from refimpl.collectives.units import size_name
from refimpl.pictures.picture import BLACK, BLUE, ORANGE, SKY, VERMILION, figure_in_style, line_style
from refimpl.training.run.directory import read_metrics

WIDTHS = (3.2, 2.2, 1.6, 1.2)
"""The styles of lines, in which equal curves on top of each other are all visible."""

STYLES = {"allreduce": (VERMILION, "s-"), "naive ps": (ORANGE, "v-"), "optimised ps": (SKY, "^-"),
          "hybrid": (BLUE, "o-"), "auto": (BLACK, "x:"), "measured": (BLUE, "o"), "fitted": (BLACK, "--")}
"""Line of ``plot_curves`` -> colour, mark and dash: the same architecture looks the same on every plot."""


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


def plot_curves(name: str, curves, directory: Path) -> list[Path]:
    """Draw each (title, x, y, {line: [(x, y)]}) into a PNG; return the paths. Local.

    STYLES gives the style of lines. With "(log)" in x that axis is logarithmic; over "machines" both axes are.
    """
    paths = []
    for number, (title, x, y, lines) in enumerate(curves):
        with figure_in_style(6.4, 4) as (figure, axes):
            for line, points in lines.items():
                if points:
                    colour, style = STYLES[line]
                    axes.plot(*zip(*sorted(points)), style, color=colour, label=line, markersize=5)
            axes.set(title=title, xlabel=x.replace(" (log)", ""), ylabel=y)
            if "(log)" in x or x.startswith("machines"):
                axes.set_xscale("log", base=2)
            if x.startswith("machines"):
                ticks = sorted({p[0] for points in lines.values() for p in points})
                axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
                axes.set_yscale("log")
            axes.legend()
            paths.append(directory / f"{name}-{number}.png")
            figure.savefig(paths[-1], dpi=130)
    return paths
