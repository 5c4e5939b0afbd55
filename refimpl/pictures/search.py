"""A partition search as a picture: the walk over P, the curve through its samples, and the P that was chosen."""

import numpy as np

from refimpl.pictures.picture import BLACK, BLUE, ORANGE, Picture, figure_in_style, picture_of, table
from refimpl.plan.search import Fit


def draw_search(found: dict) -> Picture:
    """Draw a partition search: samples numbered in the order of the walk, the fitted curve, the chosen P. Local.

    found: see ``PartitionTrials.to_json``.
    """
    counts = [sample["partitions"] for sample in found["samples"]]
    milliseconds = [1e3 * sample["seconds"] for sample in found["samples"]]
    with figure_in_style() as (figure, axes):
        draw_search_on(axes, found)
        walk = ", ".join(f"{p} ({t:.0f} ms)" for p, t in zip(counts, milliseconds))
        alt = f"Milliseconds of a step over the partitions P, tried in this order: {walk}; {outcome(found)}."
        fit = fit_of(found)
        rows = [[i + 1, p, f"{t:.1f}", "" if fit is None else f"{1e3 * fit.seconds(p):.1f}"]
                for i, (p, t) in enumerate(zip(counts, milliseconds))]
        return picture_of(figure, alt, table(["trial", "P", "measured ms", "curve ms"], rows))


def draw_search_on(axes, found: dict):
    """Draw a partition search on matplotlib axes: P logarithmic, the samples numbered in their order."""
    counts = [sample["partitions"] for sample in found["samples"]]
    milliseconds = [1e3 * sample["seconds"] for sample in found["samples"]]
    axes.plot(counts, milliseconds, "o", color=BLACK, markersize=8, label="measured, in this order", zorder=3)
    for number, (count, took) in enumerate(zip(counts, milliseconds), start=1):
        axes.annotate(str(number), (count, took), textcoords="offset points", xytext=(0, 9), ha="center",
                      fontweight="bold")
    powers = {1 << p for p in range(max(counts).bit_length() + 1) if min(counts) <= 1 << p <= max(counts)}
    ticks = sorted(powers | {min(counts)})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.margins(y=0.15)
    if (fit := fit_of(found)) is not None:
        curve = np.geomspace(min(counts), max(counts), 200)
        formula = f"{1e3 * fit.theta0:.4g} + {1e3 * fit.theta1:.4g} / P + {1e3 * fit.theta2:.3g} P"
        axes.plot(curve, 1e3 * fit.seconds(curve), color=BLUE, label=formula, zorder=2)
    axes.axvline(found["chosen"], linestyle="--", color=ORANGE, label=outcome(found), zorder=1)
    axes.set(xlabel="partitions P of each table", ylabel="milliseconds of a step")
    axes.legend(loc="best")


def outcome(found: dict) -> str:
    """Return in words which P a search ended with, and whether it came to its end. Local."""
    if found.get("finished", True):
        return f"chosen: P = {found['chosen']}"
    return f"P = {found['chosen']} when the training ended, before the search"


def fit_of(found: dict) -> Fit | None:
    """Return the curve of a search, None if it has none. Local."""
    return None if found["theta"] is None else Fit(*found["theta"])
