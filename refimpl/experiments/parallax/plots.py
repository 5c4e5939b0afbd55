"""Plots of the experiment: a line an architecture, in the style of all pictures."""

from pathlib import Path

from refimpl.pictures.picture import BLACK, BLUE, ORANGE, SKY, VERMILION, figure_in_style

STYLES = {"allreduce": (VERMILION, "s-"), "naive ps": (ORANGE, "v-"), "optimised ps": (SKY, "^-"),
          "hybrid": (BLUE, "o-"), "auto": (BLACK, "x:"), "measured": (BLUE, "o"), "fitted": (BLACK, "--")}
"""Colour, marker and dash: the same architecture looks the same on every plot."""


def plot_curves(name: str, curves, directory: Path) -> list[Path]:
    """Draw each (title, x, y, {line: [(x, y)]}) into a PNG; return the paths. Local. "(log)" in x asks for one."""
    paths = []
    for number, (title, x, y, lines) in enumerate(curves):
        with figure_in_style(6.4, 4) as (figure, axes):
            for line, points in lines.items():
                if points:
                    colour, style = STYLES[line]
                    axes.plot(*zip(*sorted(points)), style, color=colour, label=line, markersize=5)
            axes.set(title=title, xlabel=x.replace(" (log)", ""), ylabel=y)
            if "(log)" in x:
                axes.set_xscale("log", base=2)
            if x.startswith("machines"):
                axes.set_xscale("log", base=2)
                ticks = sorted({p[0] for points in lines.values() for p in points})
                axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
                axes.set_yscale("log")
            axes.legend()
            paths.append(directory / f"{name}-{number}.png")
            figure.savefig(paths[-1], dpi=130)
    return paths
