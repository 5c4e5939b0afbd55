"""Draw a schedule in space and time: as text for the terminal, or as a picture."""

from collections import Counter
from pathlib import Path

from refimpl.collectives.schedule import Schedule
from refimpl.words import counted

LINES = 6
"""The most lines of text for a rank in one round."""
LABELS = 160, 3
"""The most transfers in all, and messages of a rank in one round, with which transfers are labelled with chunks."""
SIZE = 16.0, 12.0
"""The largest size of a picture, in inches."""


def draw_text(schedule: Schedule, width: int = 100) -> str:
    """Return the schedule as a table: a column for each rank, rounds from top to bottom. Local.

    ``2-3>r1``: sends chunks 2 and 3 to rank 1.  ``+2``: adds a received chunk 2 to its own.  Columns that do not fit
    into ``width`` characters follow below.
    """
    rows = [(f"{number:>2}", _cells(step, schedule.ranks)) for number, step in enumerate(schedule.rounds)
            if step.transfers or step.sums]
    names = [f"rank {rank}" for rank in range(schedule.ranks)]
    room = max(map(len, names + [line for _, cells in rows for cell in cells for line in cell])) + 2
    fitting = max(1, (width - 4) // room)
    tables = [_table(rows, range(first, min(first + fitting, schedule.ranks)), room)
              for first in range(0, schedule.ranks, fitting)]
    return "\n\n".join(tables)


def _table(rows, ranks, room) -> str:
    lines = ["    " + "".join(f"rank {rank}".ljust(room) for rank in ranks)]
    for number, cells in rows:
        for i in range(max([1, *(len(cells[rank]) for rank in ranks)])):
            texts = [cells[rank][i] if i < len(cells[rank]) else "" for rank in ranks]
            lines.append(f"{number if i == 0 else '':<4}" + "".join(text.ljust(room) for text in texts))
    return "\n".join(line.rstrip() for line in lines)


def _cells(step, ranks) -> list[list[str]]:
    """Return for each rank the lines of a round: what it sends and adds."""
    to: list[dict] = [{} for _ in range(ranks)]
    added: list[dict] = [{} for _ in range(ranks)]
    for t in step.transfers:
        to[t.source].setdefault(_span(t), []).append(t.destination)
    for s in step.sums:
        added[s.rank][_span(s)] = added[s.rank].get(_span(s), 0) + 1
    cells = []
    for rank in range(ranks):
        lines = [f"{chunks}>{_names(peers, ranks)}" for chunks, peers in to[rank].items()]
        if len(lines) > LINES - 1:
            lines[LINES - 2:] = [f"... {len(lines) - LINES + 2} more"]
        sums = [f"+{chunks}" + (f" x{count}" if count > 1 else "") for chunks, count in added[rank].items()]
        cells.append(lines + ([" ".join(sums)] if sums else []))
    return cells


def _span(part) -> str:
    return f"{part.start}" if part.stop == part.start + 1 else f"{part.start}-{part.stop - 1}"


def _names(peers, ranks) -> str:
    if len(set(peers)) == ranks - 1 > 2:
        return "all"
    return ",".join(f"r{peer}" for peer in peers)


def draw(schedule: Schedule, path, title: str = "") -> Path:
    """Write the space-time picture of a schedule as PNG, SVG or PDF, by the name's suffix; return its path. Local.

    Raises ValueError for a suffix that matplotlib does not know.
    """
    figure, path = figure_of(schedule, title), Path(path)
    figure.savefig(path, dpi=150)
    return path


def figure_of(schedule: Schedule, title: str = ""):
    """Return the space-time picture of a schedule as a matplotlib figure. Local.

    Each arrow is a transfer, from its source to its destination within its round.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rounds = [step for step in schedule.rounds if step.transfers]
    figure = Figure(figsize=(min(SIZE[0], max(7.0, 2.0 + 1.1 * len(rounds))), min(SIZE[1], 2.2 + 0.5 * schedule.ranks)),
                    layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.hlines(range(schedule.ranks), 0, max(1, len(rounds)), color="#bbbbbb", linewidth=0.8, zorder=0)
    _arrows(axes, rounds)
    axes.set_xticks([number + 0.5 for number in range(len(rounds))], range(len(rounds)))
    axes.set_yticks(range(schedule.ranks))
    axes.set_xlim(0, max(1, len(rounds)))
    axes.set_xlabel("round")
    axes.set_ylabel("rank")
    axes.invert_yaxis()
    axes.grid(False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.vlines(range(1, len(rounds)), -0.4, schedule.ranks - 0.6, color="#000000", alpha=0.12, linewidth=0.8)
    axes.set_title(title or f"{schedule.name}: {schedule.kind} over {counted(schedule.ranks, 'rank')}", loc="left")
    if rounds:
        figure.legend(frameon=False, loc="outside lower center", ncols=3)
    return figure


def _arrows(axes, rounds):
    transfers = [(number, t) for number, step in enumerate(rounds) for t in step.transfers]
    to_add, to_keep = ([x for x in transfers if bool(x[1].target) == added] for added in (True, False))
    # Okabe & Ito's colours, as in other plots: one dark, one light, so that they differ in print, too
    for colour, label, chosen in (("#0072b2", "sent to be added", to_add), ("#e69f00", "sent to be kept", to_keep)):
        if chosen:
            begin = [(number + 0.08, t.source) for number, t in chosen]
            way = [(0.80, t.destination - t.source) for _, t in chosen]
            axes.quiver(*zip(*begin), *zip(*way), angles="xy", scale_units="xy", scale=1, color=colour, width=1.6,
                        units="dots", headwidth=6, headlength=8, headaxislength=7, label=label)
    sums = sorted({(number + 0.94, s.rank) for number, step in enumerate(rounds) for s in step.sums})
    if sums:
        axes.scatter(*zip(*sums), s=22, color="#009e73", zorder=3, label="adds")
    at_once = max(Counter((number, t.source) for number, t in transfers).values(), default=0)
    if len(transfers) <= LABELS[0] and at_once <= LABELS[1]:
        for number, t in transfers:
            axes.text(number + 0.08 + 0.8 * 0.2, t.source + 0.2 * (t.destination - t.source), _span(t), fontsize=8,
                      ha="center", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})
