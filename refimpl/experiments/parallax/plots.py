"""Plots of the experiment: a line an architecture, in the style of the other plots."""

from pathlib import Path

STYLES = {"allreduce": ("#d55e00", "s-"), "naive ps": ("#e69f00", "v-"), "optimised ps": ("#56b4e9", "^-"),
          "hybrid": ("#0072b2", "o-"), "auto": ("#000000", "x:"), "measured": ("#0072b2", "o"),
          "fitted": ("#000000", "--")}
"""Colour (Okabe & Ito), marker and dash: the same architecture looks the same on every plot."""


def plot_curves(name: str, curves, directory: Path) -> list[Path]:
    """Draw each (title, x, y, {line: [(x, y)]}) into a PNG; return the paths. Local. "(log)" in x asks for one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    paths = []
    for number, (title, x, y, lines) in enumerate(curves):
        figure, axes = pyplot.subplots(figsize=(6.4, 4), layout="constrained")
        for line, points in lines.items():
            if points:
                colour, style = STYLES[line]
                axes.plot(*zip(*sorted(points)), style, color=colour, label=line, linewidth=1.8, markersize=5)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(x.replace(" (log)", ""))
        axes.set_ylabel(y)
        if "(log)" in x:
            axes.set_xscale("log", base=2)
        if x.startswith("machines"):
            axes.set_xscale("log", base=2)
            ticks = sorted({p[0] for points in lines.values() for p in points})
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.set_yscale("log")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
        paths.append(directory / f"{name}-{number}.png")
        figure.savefig(paths[-1], dpi=130)
        pyplot.close(figure)
    return paths
