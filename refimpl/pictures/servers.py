"""Pictures of the parameter server: the owners of rows, the messages, and the load of each rank."""

import numpy as np

from refimpl.pictures.picture import (
    BLUE, COLOURS, GREY, ORANGE, VERMILION, Picture, bare, figure_in_style, picture_of, table,
)
from refimpl.server.partition import Partitioning

HATCHES = ("", "///", "...", "xxx", "\\\\\\")
"""Hatches of bars, at the index of their colour, for print without colours."""
PHASES = ("1 ask: row numbers", "2 answer: rows", "3 push: row numbers and gradient rows")


def draw_partitions(partitionings: dict[str, Partitioning]) -> Picture:
    """Draw the owners of the rows of a small table, one partitioning below the other. Local.

    partitionings: title -> partitions.
    """
    rows = max(parts.rows for parts in partitionings.values())
    ranks = max(parts.ranks for parts in partitionings.values())
    height = 0.9 + len(partitionings) * (0.6 + 0.34 * ranks)
    listed = []
    with figure_in_style(7.0, height, nrows=len(partitionings), squeeze=False) as (figure, grid):
        for axes, (title, parts) in zip(grid[:, 0], partitionings.items()):
            _draw_owners(axes, title, parts, rows)
            listed += [[title, rank, _listed(sorted(map(int, parts.global_rows(rank))))] for rank in range(parts.ranks)]
        grid[-1, 0].set_xlabel("row of the table")
        alt = "Which rank owns which row: " + "; ".join(
            f"{title}, rank 0 has rows {_listed(sorted(map(int, parts.global_rows(0))))}"
            for title, parts in partitionings.items())
        return picture_of(figure, alt, table(["scheme", "rank", "rows"], listed))


def _draw_owners(axes, title, parts, rows):
    partition, _ = parts.locate(np.arange(parts.rows))
    for row in range(parts.rows):
        owner = parts.owners[partition[row]]
        colour = COLOURS[owner % len(COLOURS)]
        axes.barh(owner, 0.9, left=row - 0.45, height=0.86, color=colour)
        axes.text(row, owner, row, ha="center", va="center", color=_readable_on(colour), fontsize=9, fontweight="bold")
    axes.set(xlim=(-0.7, rows - 0.3), ylim=(parts.ranks - 0.5, -0.5), title=title)
    axes.set_yticks(range(parts.ranks), [f"rank {rank}" for rank in range(parts.ranks)])
    axes.set_xticks([])
    bare(axes)
    axes.hlines(np.arange(parts.ranks), -0.5, rows - 0.5, color="#dddddd", linewidth=0.8, zorder=0)


def _readable_on(colour: str) -> str:
    red, green, blue = (int(colour[i:i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 110 else "white"


def _listed(rows) -> str:
    return ", ".join(map(str, rows))


def pull_and_push(parts: Partitioning, needs) -> list[tuple[str, int, int, list[int]]]:
    """Return the messages of a step, (phase, from, to, rows), in the order of PHASES. Local.

    needs[r]: the sorted unique rows that rank r reads. A rank sends nothing to itself.
    """
    asked = []
    for rank, ids in enumerate(needs):
        ids = np.asarray(ids, np.int64)
        owners = np.asarray(parts.owners)[parts.locate(ids)[0]]
        asked += [(rank, int(owner), [int(i) for i in ids[owners == owner]]) for owner in np.unique(owners)
                  if owner != rank]
    ask, answer, push = PHASES
    return ([(ask, *message) for message in asked] + [(answer, owner, rank, ids) for rank, owner, ids in asked]
            + [(push, *message) for message in asked])


def draw_pull_push(parts: Partitioning, needs) -> Picture:
    """Draw the messages of one step in space and time: a line is a rank, an arrow a message with its rows. Local.

    needs[r]: the sorted unique rows that rank r reads.
    """
    messages = pull_and_push(parts, needs)
    with figure_in_style(8.0, 0.9 + 0.9 * parts.ranks) as (figure, axes):
        axes.hlines(range(parts.ranks), 0, 3.75, color=GREY, linewidth=1)
        for number, phase in enumerate(PHASES):
            _draw_phase(axes, number + 0.35 * (number == 2), [m for m in messages if m[0] == phase])
        for rank, ids in enumerate(needs):
            axes.text(2.17, rank, f"computes on\n{_listed(ids) or 'none'}", ha="center", va="center", fontsize=9,
                      bbox={"facecolor": "white", "edgecolor": GREY, "boxstyle": "round,pad=0.25"})
            axes.text(3.40, rank, "adds,\nupdates", ha="left", va="center", fontsize=9,
                      bbox={"facecolor": "white", "edgecolor": GREY, "boxstyle": "round,pad=0.25"})
        for place, phase in zip((0.46, 1.46, 2.86), PHASES):
            axes.text(place, -0.62, phase.replace(": ", ":\n", 1).replace(" and ", "\nand "), ha="center", va="bottom",
                      fontsize=10)
        axes.set(xlim=(0, 3.85), ylim=(parts.ranks - 0.6, -0.55))
        axes.set_yticks(range(parts.ranks), [f"rank {r}\nowns {_span(parts, r)}" for r in range(parts.ranks)])
        axes.set_xticks([])
        bare(axes)
        alt = (f"One step of pull and push on {parts.ranks} ranks: {len(messages) // 3} questions and as many "
               "answers and pushes. Questions and pushes go to the owner of their rows, and answers come from it.")
        told = [[phase, source, to, _listed(ids)] for phase, source, to, ids in messages]
        return picture_of(figure, alt, table(["message", "from", "to", "rows"], told))


def _span(parts, rank) -> str:
    rows = sorted(map(int, parts.global_rows(rank)))
    if rows and rows == list(range(rows[0], rows[-1] + 1)) and len(rows) > 1:
        return f"{rows[0]}-{rows[-1]}"
    return _listed(rows) or "none"


def _draw_phase(axes, left, messages):
    for lane, (phase, source, to, ids) in enumerate(messages):
        begin = left + 0.06 + 0.35 * (lane / max(1, len(messages)))
        end = begin + 0.42
        colour = (BLUE, ORANGE, VERMILION)[PHASES.index(phase)]
        axes.annotate("", (end, to), (begin, source), arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0,
                                                                 "shrinkB": 2, "linewidth": 1.6,
                                                                 "linestyle": "--" if phase == PHASES[1] else "-"})
        part = 0.32 if abs(to - source) == 1 else 0.15  # near the sender, where arrows hardly cross
        axes.text(begin + part * (end - begin), source + part * (to - source), _listed(ids), fontsize=9, ha="center",
                  va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8}, zorder=4)


def draw_traffic(matrices: dict[str, np.ndarray]) -> Picture:
    """Draw matrices of bytes between ranks: title -> (N, N), entry [i, j] from rank i to rank j. Local."""
    largest = max(1, max(int(matrix.max()) for matrix in matrices.values()))
    with figure_in_style(1.2 + 3.0 * len(matrices), 3.5, ncols=len(matrices), squeeze=False) as (figure, grid):
        for axes, (title, matrix) in zip(grid[0], matrices.items()):
            ranks = len(matrix)
            axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1.15 * largest)
            for (i, j), count in np.ndenumerate(matrix):
                text = "–" if i == j and not count else f"{int(count):,}" if count else "0"
                axes.text(j, i, text, ha="center", va="center", fontsize=8,
                          color="white" if count > 0.6 * largest else GREY if not count else "black")
            axes.set(title=title, xlabel="to rank", ylabel="from rank" if axes is grid[0][0] else "")
            axes.set_xticks(range(ranks))
            axes.set_yticks(range(ranks))
            bare(axes)
            axes.hlines(np.arange(1, ranks) - 0.5, -0.5, ranks - 0.5, color="white", linewidth=2)
            axes.vlines(np.arange(1, ranks) - 0.5, -0.5, ranks - 0.5, color="white", linewidth=2)
        alt = "Who sends whom how many bytes: " + "; ".join(
            f"{title}, at most {int(m.sum(axis=0).max()):,} reach one rank" for title, m in matrices.items())
        told = [[title, i, *map(int, row)] for title, matrix in matrices.items() for i, row in enumerate(matrix)]
        heads = ["way", "from", *(f"to {j}" for j in range(max(map(len, matrices.values()))))]
        return picture_of(figure, alt, table(heads, told))


def plot_by_rank(series: dict[str, list[int]], y: str = "bytes sent and received in a step", *,
                 unit: float = 1.0) -> Picture:
    """Draw a bar for each rank and each series: label -> amount by rank. unit: amounts are shown divided by it."""
    ranks = max(map(len, series.values()))
    width, top = 0.8 / len(series), max(max(amounts) for amounts in series.values()) / unit
    with figure_in_style(7.0, 3.8) as (figure, axes):
        for index, (label, amounts) in enumerate(series.items()):
            places = np.arange(len(amounts)) + (index - (len(series) - 1) / 2) * width
            axes.bar(places, np.asarray(amounts) / unit, 0.92 * width, label=label, color=COLOURS[index],
                     hatch=HATCHES[index % len(HATCHES)], edgecolor="white", linewidth=0.8)
            for place, amount in zip(places, amounts):
                axes.text(place, amount / unit + 0.015 * top, f"{amount / unit:,.3g}" if unit != 1 else f"{amount:,}",
                          ha="center", va="bottom", fontsize=8)
        axes.set_xticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
        axes.set_ylabel(y)
        axes.set_ylim(0, 1.12 * top)
        axes.yaxis.set_major_formatter("{x:,.6g}")
        axes.grid(axis="x", visible=False)
        figure.legend(loc="outside lower center", ncols=len(series))
        alt = f"{y[0].upper()}{y[1:]}, by rank: " + "; ".join(
            f"{label}: most {max(a) / unit:,.4g}, least {min(a) / unit:,.4g}" for label, a in series.items())
        told = [[rank, *(f"{a[rank] / unit:,.4g}" if rank < len(a) else "" for a in series.values())]
                for rank in range(ranks)]
        return picture_of(figure, alt, table(["rank", *series], told))


def plot_popularity(counts, words, parts: Partitioning, named=(1, 4, 40, 400, 4000)) -> Picture:
    """Draw the frequency of each word over its number, and the part of all look-ups in each partition.

    counts, words: (vocabulary,), most frequent first.  parts: contiguous partitions of the table.  named: words to
    label, counted from 1.
    """
    place = np.arange(1, len(counts) + 1)
    stretches = [parts.rows_of_partition(partition) for partition in range(parts.partitions)]
    shares = [float(counts[rows.start:rows.stop].sum() / counts.sum()) for rows in stretches]
    with figure_in_style(7.6, 4.6) as (figure, axes):
        for partition, rows in enumerate(stretches):
            left, right = rows.start + 1, rows.stop + 1
            axes.axvspan(left, right, color=GREY, alpha=0.16 if partition % 2 else 0.05, lw=0)
            wide = right / left > 4
            said = f"partition {partition}: {shares[partition]:.1%}" if wide else f"{shares[partition]:.1%}"
            axes.text((left * right) ** 0.5, 2.2 * counts.max(), said, ha="center", va="top", fontsize=9,
                      rotation=0 if wide else 90)
        seen = counts > 0
        axes.plot(place[seen], counts[seen], color=BLUE, label="occurrences in the text")
        harmonic = counts.sum() / (1 / place).sum()
        axes.plot(place, harmonic / place, "--", color=ORANGE, label="Zipf's law: as 1 / number")
        for number in (n for n in named if n <= len(counts)):
            count = counts[number - 1]
            axes.plot([number], [count], "o", color=BLUE, markersize=5)
            axes.annotate(words[number - 1], (number, count), textcoords="offset points", fontsize=9,
                          xytext=(6, 4) if number == 1 else (-5, -5), ha="left" if number == 1 else "right",
                          va="bottom" if number == 1 else "top")
        axes.set(xscale="log", yscale="log", xlabel="number of the word, the most frequent first",
                 ylabel="occurrences", xlim=(0.9, len(counts) * 1.02), ylim=(0.7, 3 * counts.max()),
                 title="equal partitions of the table, and the part of the text in each")
        axes.legend(loc="lower left")
        told = [[p, f"{rows.start:,} to {rows.stop - 1:,}", f"{share:.1%}"]
                for p, (rows, share) in enumerate(zip(stretches, shares))]
        alt = (f"Occurrences of a word over its number, from {counts.max():,} to {counts.min():,}, beside Zipf's law; "
               f"the first of {parts.partitions} equal partitions, the words 0 to {stretches[0].stop - 1:,}, holds "
               f"{shares[0]:.1%} of the text.")
        return picture_of(figure, alt, table(["partition", "rows", "part of the text"], told))
