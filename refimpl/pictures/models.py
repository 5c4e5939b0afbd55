"""Pictures of a model: the rows that one microbatch touches; and words between three corners."""

import numpy as np

from refimpl.pictures.picture import (
    BLUE, COLOURS, GREY, MARKS, ORANGE, Picture, bare, figure_in_style, picture_of, table,
)

CORNERS = np.array([(0.0, 0.0), (1.0, 0.0), (0.5, 3**0.5 / 2)])
"""Left, right and upper corner of the triangle of side 1."""
DOT = 0.006
"""The side of a dot; closer points are drawn as one."""


def draw_touched(model, batch) -> Picture:
    """Draw the variables of a model, and the rows that a microbatch reads and changes. Local.

    A line is a touched row; dense variables are touched whole. Each variable has its own scale.
    """
    needed = model.rows_needed(batch)
    touched = {v.name: np.asarray(needed[v.name]) if v.sparse else np.arange(v.shape[0]) for v in model.variables}
    with figure_in_style(1.0 + 2.1 * len(touched), 4.0, ncols=len(touched), squeeze=False) as (figure, grid):
        for axes, variable in zip(grid[0], model.variables):
            rows, ids = variable.shape[0], touched[variable.name]
            thin = rows > 400
            if variable.sparse:
                axes.hlines(ids + 0.5, 0, 1, color=BLUE, linewidth=0.5 if thin else 1.5)
            else:
                axes.axhspan(0, rows, color=ORANGE, lw=0)
                axes.hlines(np.arange(1, rows), 0, 1, color="white", linewidth=1)
            kind = "sparse" if variable.sparse else "dense"
            axes.set(xlim=(0, 1), ylim=(rows, 0), xticks=[], title=f"{variable.name}\n{kind}")
            axes.set_yticks([0, rows], ["0", f"{rows:,}"])
            axes.set_xlabel(f"{len(ids):,} of {rows:,} rows\n({len(ids) / rows:.2%})" if variable.sparse else
                            f"all of it:\n{' × '.join(f'{n:,}' for n in variable.shape)}")
            axes.grid(False)
            axes.spines[:].set_visible(True)
        rows = [[v.name, "sparse" if v.sparse else "dense", v.shape[0], len(touched[v.name]),
                 f"{len(touched[v.name]) / v.shape[0]:.2%}"] for v in model.variables]
        alt = "What one microbatch touches: " + "; ".join(f"{name}, {count:,} of {all_rows:,} rows"
                                                          for name, _, all_rows, count, _ in rows)
        return picture_of(figure, alt, table(["variable", "kind", "rows", "touched", "part"], rows))


def draw_triangle(shares, labels, corners, named=12) -> Picture:
    """Draw points between three corners: the closer to one, the larger its share. Local.

    shares: (n, 3), each row adding up to 1.  labels: n names.  corners: three names.  named: the number of points
    nearest to each corner that are labelled and drawn in its colour.
    """
    shares = np.asarray(shares, float)
    places, nearest = shares @ CORNERS, shares.argmax(axis=1)
    falling = np.argsort(-shares, axis=0, kind="stable")[:named]
    chosen = {k: [int(i) for i in falling[:, k] if nearest[i] == k] for k in range(3)}
    with figure_in_style(8.0, 5.0) as (figure, axes):
        axes.plot(*CORNERS[[0, 1, 2, 0]].T, color=GREY, linewidth=1)
        axes.plot(*_dots(places), color=GREY, linewidth=2, solid_capstyle="butt")
        for k, points in chosen.items():
            axes.plot(*places[points].T, MARKS[k], color=COLOURS[k], markersize=6, markeredgecolor="white")
            _label_column(axes, k, [(labels[i], places[i]) for i in points])
        for k, (corner, name) in enumerate(zip(CORNERS, corners)):
            axes.text(*(corner + ((-0.02, -0.05), (0.02, -0.05), (0, 0.03))[k]), name, color=COLOURS[k], ha="center",
                      va="center", fontsize=12, fontweight="bold")
        axes.set(xlim=(-0.42, 1.42), ylim=(-0.1, 0.94), xticks=[], yticks=[], aspect="equal")
        bare(axes)
        rows = [[corners[k], labels[i], *(f"{part:.0%}" for part in shares[i])] for k in range(3) for i in chosen[k]]
        alt = "Points between three corners; nearest to each: " + "; ".join(
            f"{corners[k]}: {', '.join(labels[i] for i in chosen[k][:5])}" for k in range(3))
        return picture_of(figure, alt, table(["nearest to", "", *corners], rows))


def _dots(points):
    """Return x, y of one broken line that draws a dot at each point and joins neighbours. Single marks would give five
    times as much SVG."""
    y, x = np.unique((points[:, ::-1] / DOT).round(), axis=0).T
    begins = np.concatenate([[True], (np.diff(x) > 1) | (np.diff(y) > 0)])
    first, last = np.flatnonzero(begins), np.concatenate([np.flatnonzero(begins)[1:] - 1, [len(x) - 1]])
    ends = np.stack([x[first] - 0.5, x[last] + 0.5, np.full(len(first), np.nan)], axis=1)
    return ends.ravel() * DOT, np.repeat(y[first], 3) * DOT


def _label_column(axes, corner, points):
    """Write labels in a column beside the triangle, in the order of their points' heights, with lines to the points."""
    if not points:
        return
    x, align = ((-0.14, "right"), (1.14, "left"), (0.86, "left"))[corner]
    low, high = ((0.02, 0.46), (0.02, 0.46), (0.5, 0.9))[corner]
    for y, (label, place) in zip(np.linspace(low, high, len(points)), sorted(points, key=lambda point: point[1][1])):
        axes.text(x, y, label, ha=align, va="center", fontsize=9)
        axes.plot([x + (0.01 if align == "right" else -0.01), place[0]], [y, place[1]], color=COLOURS[corner],
                  linewidth=0.5, alpha=0.6)
