"""Plots of lines and points in the common style. Formulas are lines, measurements are points."""

from dataclasses import dataclass, replace
from typing import Sequence

from refimpl.pictures.picture import GREY, Picture, figure_in_style, line_style, mark_style, picture_of, table

RING = {"markersize": 7, "markerfacecolor": "white", "markeredgewidth": 1.8}
LISTED = 12
"""The most values of a line in its text alternative."""


@dataclass(frozen=True)
class Line:
    """One curve of a plot. style: the index of its colour, dash and mark; a line and its points share it.

    points: whether to draw marks without a line, for counted or measured values. Several lines may share a label.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: int = 0
    points: bool = False


def plot_lines(lines: Sequence[Line], x: str, y: str, alt: str, *, log: str = "", ticks: Sequence[float] = (),
               span: Sequence[float] = ()) -> Picture:
    """Return the picture of some lines in one plot. Local.

    x, y: labels of the axes, with units.  log: "", "x", "y" or "xy": the logarithmic axes.
    ticks: positions of numbers on the x axis; none: automatic.
    span: limits of the y axis, so that pictures can be compared; none: automatic.
    """
    with figure_in_style() as (figure, axes):
        draw_lines(axes, lines, x, y, log=log)
        if len(ticks):
            axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
            axes.xaxis.minorticks_off()
        if len(span):
            axes.set_ylim(*span)
        axes.legend(*_legend(lines, axes))
        return picture_of(figure, alt, numbers_of(lines, x))


def plot_panels(panels: dict[str, Sequence[Line]], x: Sequence[str], y: str, alt: str, *, log: str = "") -> Picture:
    """Return panels side by side, title -> lines, with one y axis and one legend. x: labels of the panels' x axes."""
    with figure_in_style(9.6, 4.0, ncols=len(panels), sharey=True, squeeze=False) as (figure, grid):
        for axes, (title, lines), name in zip(grid[0], panels.items(), x):
            draw_lines(axes, lines, name, y if axes is grid[0][0] else "", title, log)
        handles, labels = _legend([line for lines in panels.values() for line in lines], *grid[0])
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        told = [f"{title}\n{numbers_of(lines, name)}" for (title, lines), name in zip(panels.items(), x)]
        return picture_of(figure, alt, "\n".join(told))


def draw_lines(axes, lines, x, y, title="", log=""):
    """Draw lines and points on matplotlib axes."""
    for line in lines:
        look = {**mark_style(line.style), **RING, "zorder": 3} if line.points else line_style(line.style)
        axes.plot(line.x, line.y, label=line.label or None, **look)
    for axis in log:
        getattr(axes, f"set_{axis}scale")("log")
    axes.set(xlabel=x, ylabel=y, title=title)


def _legend(lines, *axes):
    """Return (handles, labels), each label once, lines first. Marks that several lines share are grey rings."""
    from matplotlib.lines import Line2D

    found = {label: handle for one in axes for handle, label in zip(*one.get_legend_handles_labels())}
    for label in found:
        if len({line.style for line in lines if line.points and line.label == label}) > 1:
            found[label] = Line2D([], [], linestyle="", marker="o", color=GREY, **RING)
    order = sorted(found, key=lambda label: any(line.points for line in lines if line.label == label))
    return [found[label] for label in order], order


def numbers_of(lines: Sequence[Line], x: str) -> str:
    """Return the values as a table with one column for each line. Local.

    Of a line with more than LISTED values only those with points are listed; without points, every k-th value.
    """
    measured = {place for line in lines if line.points for place in line.x}
    listed = [line if len(line.x) <= LISTED else _shortened(line, measured) for line in lines]
    places = sorted({place for line in listed for place in line.x})
    values = [dict(zip(line.x, map(float, line.y))) for line in listed]
    of_style = {line.style: line.label for line in lines if not line.points}
    heads = [f"{line.label}: {of_style[line.style]}" if line.points and line.style in of_style else line.label
             for line in listed]
    return table([x, *heads], [[place, *(each.get(place, "") for each in values)] for place in places])


def _shortened(line: Line, measured: set) -> Line:
    every = -(-len(line.x) // LISTED)
    kept = [(x, y) for i, (x, y) in enumerate(zip(line.x, line.y)) if (x in measured if measured else i % every == 0)]
    return replace(line, x=[x for x, _ in kept], y=[y for _, y in kept])
