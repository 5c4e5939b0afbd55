"""Pictures of trainings side by side: curves of loss, bars of bytes by rank and kind, bars of throughput."""

from pathlib import Path

import numpy as np

from refimpl.pictures.picture import (
    BLUE, GREY, ORANGE, SKY, Picture, figure_in_style, line_style, picture_of, plain_axis, table,
)
from refimpl.training.run.directory import read_metrics
from refimpl.training.run.recorded_bytes import bytes_by_rank

KINDS = {"dense": ("dense values", BLUE, ""), "rows": ("values of rows", ORANGE, "////"),
         "indices": ("row numbers", SKY, "xxxx"), "control": ("control", GREY, "")}
"""Kind of payload in the ledger -> its name in plots, colour and hatch."""

CARD = (("card", "steps"), ("payload", "steps"), ("formula_payload", "formula_steps"), ("formula", "formula_steps"))
"""Keys of an account: a count, and its number of steps."""

SEEN = 0.005  # of the highest bar; lower kinds are left out of the legend
WIDTHS = (3.2, 2.2, 1.6, 1.2)
"""Styles of lines that keep equal curves visible on top of each other."""


def plot_losses(runs: dict[str, Path], path: Path) -> Path:
    """Draw the training loss of each run (name -> run directory) over its steps; return the file's path. Local."""
    with figure_in_style() as (figure, axes):
        for number, ((name, directory), width) in enumerate(zip(runs.items(), WIDTHS)):
            records = read_metrics(directory)
            steps, losses = [r["step"] for r in records], [r["loss"] for r in records]
            axes.plot(steps, losses, **{**line_style(number), "linewidth": width}, label=name)
        axes.set(xlabel="step", ylabel="training loss (nats)")
        axes.legend(title="architecture")
        figure.savefig(path, dpi=150)
    return path


def bytes_by_kind(metrics: list[dict]) -> dict[str, np.ndarray]:
    """Return kind -> (N,) bytes that each rank sent and received in a step, the mean over the records. Local."""
    found = {kind: np.array(bytes_by_rank(metrics, kinds=[kind])) for kind in KINDS}
    return {kind: by_rank for kind, by_rank in found.items() if len(by_rank)}


def plot_bytes(runs: dict[str, list[dict]]) -> Picture:
    """Draw the bytes of a step on each rank, sent and received, stacked by kind: title -> metrics of a run. Local.

    Each title has a panel; all panels have the same scale.
    """
    counts = {title: bytes_by_kind(metrics) for title, metrics in runs.items()}
    with figure_in_style(8.6, 3.7, ncols=len(runs), sharey=True, squeeze=False) as (figure, grid):
        for axes, (title, kinds) in zip(grid[0], counts.items()):
            _draw_stacks(axes, title, kinds)
        largest = max(sum(kinds.values()).max() for kinds in counts.values())
        grid[0, 0].set_ylabel("MB sent and received in a step")
        _explain_kinds(figure, counts, largest)
        totals = {title: sum(kinds.values()) for title, kinds in counts.items()}
        alt = "Bytes that ranks send and receive in a step: " + "; ".join(
            f"{title}, the busiest rank {total.max() / 1e6:.3g} MB, all {total.sum() / 1e6:.3g} MB"
            for title, total in totals.items())
        rows = [[title, rank, *(round(kinds[kind][rank]) if kind in kinds else 0 for kind in KINDS), round(total[rank])]
                for (title, kinds), total in zip(counts.items(), totals.values()) for rank in range(len(total))]
        return picture_of(figure, alt, table(["bytes", "rank", *KINDS, "all"], rows))


def plot_busiest(ways: dict[str, dict[str, np.ndarray]]) -> Picture:
    """Draw the bytes through the busiest card in a step, sent and received, one bar for each way, by kind. Local.

    ways: title -> kind -> (N,) bytes of each rank, as ``bytes_by_kind`` gives them.
    """
    busiest = {title: int(np.argmax(sum(kinds.values()))) for title, kinds in ways.items()}
    heights = {title: {kind: kinds[kind][busiest[title]] / 1e6 for kind in KINDS if kind in kinds}
               for title, kinds in ways.items()}
    totals = {title: sum(by_kind.values()) for title, by_kind in heights.items()}
    with figure_in_style(7.6, 1.3 + 0.45 * len(ways)) as (figure, axes):
        for place, (title, by_kind) in enumerate(heights.items()):
            left = 0.0
            for kind, width in by_kind.items():
                _, colour, hatch = KINDS[kind]
                axes.barh(place, width, 0.62, left=left, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6)
                left += width
            axes.text(left, place, f" {left:.1f}", va="center")
        axes.set_yticks(range(len(ways)), list(ways))
        axes.set(ylim=(len(ways) - 0.5, -0.5), xlabel="MB sent and received by the busiest machine in a step")
        seen = _explain_kinds(figure, heights, max(totals.values()))
        plain_axis(axes, "y")
        alt = "What passes the busiest machine's card in a step: " + "; ".join(
            f"{title} {totals[title]:.1f} MB ({', '.join(f'{by_kind.get(k, 0):.1f} {KINDS[k][0]}' for k in seen)})"
            for title, by_kind in heights.items())
        rows = [[title, busiest[title], *(round(1e6 * by_kind.get(kind, 0)) for kind in KINDS)]
                for title, by_kind in heights.items()]
        return picture_of(figure, alt, table(["bytes", "busiest rank", *KINDS], rows))


def _explain_kinds(figure, ways, largest) -> list[str]:
    """Write a legend of the visible kinds below a figure of bars; return these kinds.

    ways: title -> kind -> height or heights.  largest: the highest bar.
    """
    from matplotlib.patches import Patch

    seen = [k for k in KINDS if any(np.max(kinds.get(k, 0)) > SEEN * largest for kinds in ways.values())]
    keys = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=label)
            for label, colour, hatch in map(KINDS.get, seen)]
    figure.legend(handles=keys, loc="outside lower center", ncols=len(seen))
    return seen


def _draw_stacks(axes, title, kinds):
    height = np.zeros(len(next(iter(kinds.values()))))
    for kind, by_rank in kinds.items():
        _, colour, hatch = KINDS[kind]
        axes.bar(range(len(by_rank)), by_rank / 1e6, 0.72, bottom=height / 1e6, color=colour, hatch=hatch,
                 edgecolor="white", linewidth=0.6)
        height = height + by_rank
    _label_bars(axes, title, height / 1e6)
    axes.set_xticks(range(len(height)), [f"rank {r}" for r in range(len(height))], fontsize=9)


def _label_bars(axes, title, heights):
    """Write its height on each bar, and remove ticks and grid."""
    for place, height in enumerate(heights):
        axes.text(place, height, f"{height:.2f}", ha="center", va="bottom", fontsize=9)
    axes.set_title(title)
    plain_axis(axes, "x")


def plot_throughput(speeds: dict[str, float], limits: dict[str, float] | None = None) -> Picture:
    """Draw measured throughputs as bars, also relative to the slowest. speeds: title -> words a second. Local.

    limits: title -> throughput if a step took only the time of its predicted exchanges; a mark on the bar.
    """
    slowest, limits = min(speeds.values()), limits or {}
    with figure_in_style(7.6, 0.9 + 0.52 * len(speeds)) as (figure, axes):
        longest = max([*speeds.values(), *limits.values()])
        for place, (title, speed) in enumerate(speeds.items()):
            axes.barh(place, speed, 0.62, color=BLUE, label="measured" if place == 0 else None)
            axes.text(speed - 0.01 * longest, place, f"{speed:,.0f}  ({speed / slowest:.2f} ×)", ha="right",
                      va="center", color="white", fontweight="bold", fontsize=9)
        if limits:
            places = [place for place, title in enumerate(speeds) if title in limits]
            axes.plot([limits[title] for title in speeds if title in limits], places, linestyle="", marker="|",
                      markersize=21, markeredgewidth=2.6, color="black", label="predicted, if exchanges were all")
            figure.legend(loc="outside lower center", ncols=2, handleheight=1.6)
        axes.set_yticks(range(len(speeds)), list(speeds))
        axes.set(ylim=(len(speeds) - 0.5, -0.5), xlim=(0, 1.03 * longest), xlabel="words a second")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        plain_axis(axes, "y")
        alt = "Measured words a second: " + "; ".join(
            f"{title} {speed:,.0f}, {speed / slowest:.2f} times the slowest" for title, speed in speeds.items())
        heads = ["words a second", "measured", *(["predicted limit"] if limits else [])]
        rows = [[title, f"{speed:,.0f}", *([f"{limits[title]:,.0f}" if title in limits else ""] if limits else [])]
                for title, speed in speeds.items()]
        return picture_of(figure, alt, table(heads, rows))


def plot_cards(accounts: dict[str, list[dict]]) -> Picture:
    """Draw the bytes through each machine's card in a step, in and out: payload, framing, predicted payload. Local.

    accounts: title -> account of each machine, see ``refimpl.experiments.cluster.account``. Each title has a panel.
    """
    rows = [[title, machine, *(sum(account[what]) / account[steps] for what, steps in CARD)]
            for title, machines in accounts.items() for machine, account in enumerate(machines)]
    with figure_in_style(8.6, 3.7, ncols=len(accounts), sharey=True, squeeze=False) as (figure, grid):
        for axes, title in zip(grid[0], accounts):
            _draw_cards(axes, title, [row[2:] for row in rows if row[0] == title])
        grid[0, 0].set_ylabel("MB through the card in a step")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        alt = "What passes each machine's card in a step, in and out: " + "; ".join(
            f"{title}, {max(row[2] for row in rows if row[0] == title) / 1e6:.3g} MB" for title in accounts)
        return picture_of(figure, alt, table(["bytes", "machine", "card", "payload", "payload, first steps", "formula"],
                                             [[*row[:2], *map(round, row[2:])] for row in rows]))


def _draw_cards(axes, title, counts):
    card, payload, _, formula = np.array(counts).T / 1e6
    axes.bar(range(len(card)), payload, 0.6, color=BLUE, label="payload")
    axes.bar(range(len(card)), card - payload, 0.6, bottom=payload, color=GREY, label="headers, acknowledgements")
    places = np.arange(len(card))
    axes.hlines(formula, places - 0.36, places + 0.36, color=ORANGE, linewidth=2.4, label="formula, first steps")
    axes.set_xticks(places)
    axes.set_xlabel("machine")
    _label_bars(axes, title, card)
