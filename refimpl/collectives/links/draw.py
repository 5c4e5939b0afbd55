"""Draw a packing: the network's links, their load, and the trees."""

from math import cos, pi, sin
from pathlib import Path

TREES = 12
"""The most trees that are drawn, each in its own panel."""


def draw_packing(packing, path) -> Path:
    """Draw the links (width: rate, colour: load) and the first trees into a file (.png, .svg, .pdf). Local.

    Raises ValueError for another kind of file, OSError if it cannot be written.
    """
    packing_figure(packing).savefig(path)
    return Path(path)


def packing_figure(packing, most_trees: int = TREES):
    """Return the matplotlib figure of the links and of some of the trees. Local."""
    from matplotlib.figure import Figure

    trees = packing.trees[:most_trees]
    rows = -(-(1 + len(trees)) // 4)
    columns = -(-(1 + len(trees)) // rows)
    figure = Figure(figsize=(3.2 * columns, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis in axes:
        axis.set_aspect("equal")
        axis.axis("off")
    places = _places(packing.links)
    most, load = max(packing.links.rates.values()), packing.load()
    for (a, b), rate in packing.links.rates.items():
        colour = "C0" if load[a, b] == 1 else "C1" if load[a, b] else "C7"
        _arrow(axes[0], places, a, b, colour, 0.5 + 2.5 * float(rate / most))
    axes[0].set_title(f"{packing.links.name}: {packing.kind}, rate {packing.rate}\n"
                      "blue: full, orange: partly used, grey: not used", fontsize=8)
    for axis, tree in zip(axes[1:], trees):
        for a, b in tree.links():
            _arrow(axis, places, a, b, "C0", 1.2)
        axis.set_title(f"{'sum to' if tree.inward else 'from'} rank {tree.root}, rate {tree.rate}", fontsize=8)
    for axis in axes[:1 + len(trees)]:
        _nodes(axis, packing.links, places)
    return figure


def _places(links) -> dict[int, tuple[float, float]]:
    """Return the positions of nodes: ranks on a circle, switches inside."""
    def circle(number, count, radius):
        angle = pi / 2 - 2 * pi * number / count
        return radius * cos(angle), radius * sin(angle)

    inner = 0.0 if links.switches == 1 else 0.45
    return ({rank: circle(rank, links.ranks, 1.0) for rank in range(links.ranks)}
            | {links.ranks + s: circle(s, links.switches, inner) for s in range(links.switches)})


def _arrow(axis, places, a, b, colour, width):
    style = {"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 9, "shrinkB": 9}
    axis.annotate("", places[b], places[a], arrowprops=style | {"connectionstyle": "arc3,rad=0.12"})


def _nodes(axis, links, places):
    for node, (x, y) in places.items():
        shape = {"boxstyle": "circle" if node < links.ranks else "square", "fc": "white", "ec": "black", "lw": 0.8}
        axis.text(x, y, str(node), ha="center", va="center", fontsize=8, bbox=shape)
    axis.set_xlim(-1.25, 1.25)
    axis.set_ylim(-1.25, 1.25)
