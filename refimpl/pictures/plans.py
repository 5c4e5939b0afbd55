"""Pictures of plans: the possible and chosen strategies of each variable; a search for the number of partitions."""

from pathlib import Path

import numpy as np

from refimpl.pictures.picture import BLACK, BLUE, GREEN, GREY, ORANGE, Picture, figure_in_style, picture_of, table
from refimpl.plan.choose import Chosen
from refimpl.plan.partitions.search import Fit
from refimpl.plan.strategy import names_of, strategy_of

COLOURS = {"green": GREEN, "blue": BLUE, "orange": ORANGE, "black": BLACK}


def looks(forecasts=()) -> dict[str, tuple[str, str, str]]:
    """Return strategy -> (label, colour, mark), dense ones first: those of ``auto`` and of the forecasts. Local."""
    there = {(name, f.sparse) for f in forecasts for name in f.candidates}
    dense, sparse = ([strategy_of(name, kind) for name in names_of(kind)
                      if (name, kind) in there or strategy_of(name, kind).automatic] for kind in (False, True))
    return {cls.name: (cls.label, COLOURS[cls.colour], cls.mark) for cls in [*reversed(dense), *sparse]}


def draw_plan(chosen: Chosen) -> Picture:
    """Draw a plan: a line for each variable, a mark for each possible strategy, filled for the chosen one. Local.

    x: bytes of a step through the busiest card, in and out, logarithmic.
    """
    forecasts = chosen.forecasts
    known = looks(forecasts)
    with figure_in_style(8.6, 1.5 + 0.46 * len(forecasts)) as (figure, axes):
        for place, forecast in enumerate(forecasts):
            counts = [candidate.card_bytes for candidate in forecast.candidates.values()]
            axes.plot([min(counts), max(counts)], [place, place], color=GREY, linewidth=0.8, zorder=1)
            for name, candidate in forecast.candidates.items():
                _, colour, mark = known[name]
                has = name == forecast.strategy
                axes.plot([candidate.card_bytes], [place], mark, color=colour, markersize=11 if has else 8,
                          markerfacecolor=colour if has else "white", markeredgewidth=2)
        axes.set_yticks(range(len(forecasts)), [f"{f.variable}\n" + (f"α = {f.alpha:.2g}" if f.sparse else "dense")
                                                for f in forecasts])
        axes.set(xscale="log", ylim=(len(forecasts) - 0.5, -0.5),
                 xlabel="bytes of a step through the busiest machine's card, in and out")
        axes.tick_params(axis="y", length=0)
        seen = [name for name in known if any(name in forecast.candidates for forecast in forecasts)]
        keys = [axes.plot([], [], mark, color=colour, label=label, markersize=9)[0]
                for label, colour, mark in map(known.get, seen)]
        figure.legend(handles=keys, loc="outside lower center", ncols=len(seen),
                      title="filled: the way that was chosen")
        alt = "The way of each variable, and the bytes that each way would put on the busiest card: " + "; ".join(
            f"{f.variable} goes by {f.strategy}, {f.candidates[f.strategy].card_bytes:,}" for f in forecasts)
        rows = [[f.variable, f"{f.alpha:.3g}" if f.sparse else "dense", f.strategy,
                 *(f.candidates[name].card_bytes if name in f.candidates else "" for name in known)]
                for f in forecasts]
        return picture_of(figure, alt, table(["bytes", "α", "goes by", *known], rows))


def draw_search(found: dict) -> Picture:
    """Draw a partition search: the numbered samples, the fitted curve, the chosen P. Local.

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


def plot_search(found: dict, path: Path) -> Path:
    """Write ``draw_search``'s plot to a file; return its path. Local."""
    with figure_in_style() as (figure, axes):
        draw_search_on(axes, found)
        figure.savefig(path, dpi=150)
    return path


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
    """Return the P of a search as text, and whether the search was completed. Local."""
    if found.get("finished", True):
        return f"chosen: P = {found['chosen']}"
    return f"P = {found['chosen']} when the training ended, before the search"


def fit_of(found: dict) -> Fit | None:
    """Return the fitted curve of a search, or None. Local."""
    return None if found["theta"] is None else Fit(*found["theta"])
