"""An animation of a schedule: the chunks of every rank and the messages in flight; below it all rounds, for print.

Rank r begins with 10**r times (1, 2, 3, ...), so the digits of a number show which ranks it includes. (With more than 4
ranks the numbers would be long, so the picture shows the number of included ranks.) The picture is one animated SVG
(CSS, no script). Without animation (in print, or with reduced motion) it shows the end.
"""

from html import escape
from typing import NamedTuple

import numpy as np

from refimpl.collectives.local import watch_local
from refimpl.collectives.schedule import Schedule
from refimpl.pictures.picture import BLUE, ORANGE, Picture
from refimpl.words import counted

MOST = 8, 9
"""The most ranks, and the most chunks, because numbers have a digit for each rank."""
DIGITS = 4
"""The most ranks for which cells show numbers; beyond, they show the number of included ranks."""
WIDTH, MARGIN = 760, 14
CELL, GAP = (0.62, 28), 8  # of the animation: part of a column, height; between chunks
FRAMES = 4  # in a row of the strip
BEGIN, MOVE, REST, END = 1.5, 1.5, 0.9, 3.5
"""Seconds before the first round, of a round's messages, after them, and at the end."""
INK, PALE, RULE = "#1a1a1a", (0xEE, 0xF4, 0xF9), "#b8b8b8"


class Grid(NamedTuple):
    """The places of chunks: one column per rank, one row per chunk. left, top: of the grid; width: of a column."""

    left: float
    top: float
    width: float
    cell: tuple[float, float]
    gap: float

    def place(self, rank: int, chunk: int) -> tuple[float, float]:
        """Return the upper left corner of a cell. Local."""
        left = self.left + rank * self.width + (self.width - self.cell[0]) / 2
        return left, self.top + chunk * (self.cell[1] + self.gap)


def animate(schedule: Schedule) -> Picture:
    """Return the animation of an allreduce that begins with one input on each rank. Local.

    Raises ValueError for more than 8 ranks or 9 chunks, and for schedules that run_local refuses.
    """
    if schedule.ranks > MOST[0] or schedule.chunks > MOST[1]:
        raise ValueError(f"animate draws at most {MOST[0]} ranks and {MOST[1]} chunks, not {schedule.ranks} and "
                         f"{schedule.chunks}: use draw")
    title, states = f"{schedule.name}: allreduce over {counted(schedule.ranks, 'rank')}", states_of(schedule)
    column = (WIDTH - 2 * MARGIN) / schedule.ranks
    stage = Grid(MARGIN, 62, column, (CELL[0] * column, CELL[1]), GAP)
    bottom = stage.place(0, schedule.chunks)[1] + 30
    strip, height = _strip(schedule, states, bottom)
    body = [_heading(schedule, title), *_captions(schedule, bottom - 18), *_cells(schedule, states, stage),
            *_messages(schedule, states, stage), *strip]
    alt = f"{title}, {len(schedule.rounds)} rounds step by step"
    svg = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" '
           f'height="{height:.0f}" role="img" font-family="DejaVu Sans, Verdana, sans-serif">\n'
           f"<title>{escape(alt)}</title>\n<style>{_style(schedule, states)}</style>\n"
           f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(body) + "\n</svg>\n")
    return Picture(svg, alt, states_as_text(states))


def states_of(schedule: Schedule) -> np.ndarray:
    """Return the chunks of each rank at first and after each round, (rounds + 1, ranks, chunks) int64. Local."""
    inputs = [10**rank * np.arange(1, schedule.chunks + 1) for rank in range(schedule.ranks)]
    return np.array(watch_local(schedule, inputs))


def states_as_text(states: np.ndarray) -> str:
    """Return the states as text, one line of all ranks' chunks for each round. Local."""
    shown = np.vectorize(lambda value: _label(value, states.shape[1]), otypes=[object])(states)
    width, lines = max(map(len, shown.flat)), []
    for number, ranks in enumerate(shown):
        held = " | ".join(" ".join(text.rjust(width) for text in rank) for rank in ranks)
        lines.append(f"{_name(number):14} | {held}")
    return "\n".join(lines)


def _label(value, ranks: int) -> str:
    """Return the text of a cell: its number, or the number of included ranks."""
    return str(value) if ranks <= DIGITS else str(_contributions(value))


def _contributions(value) -> int:
    return sum(digit != "0" for digit in str(value))


def _name(state: int) -> str:
    return f"after round {state - 1}" if state else "at first"


def _heading(schedule, title) -> str:
    width = (WIDTH - 2 * MARGIN) / schedule.ranks
    ranks = "".join(f'<text x="{MARGIN + (rank + 0.5) * width:.1f}" y="52" font-size="13" font-weight="bold" '
                    f'text-anchor="middle" fill="{INK}">rank {rank}</text>' for rank in range(schedule.ranks))
    return f'<text x="{MARGIN}" y="24" font-size="15" fill="{INK}">{escape(title)}</text>\n{ranks}'


def _captions(schedule, y):
    """Yield the captions: one line for each round, and one for the end."""
    said = ["at first: each rank has its own numbers"]
    for number, step in enumerate(schedule.rounds):
        what = "to be added (blue)" if step.sums else "to be kept (orange)"
        said.append(f"round {number}: {len(step.transfers)} messages, {what}")
    said.append("done: each rank has the whole sum")
    for number, text in enumerate(said):
        last = number == len(said) - 1
        yield (f'<text class="c{number}" opacity="{int(last)}" x="{WIDTH / 2}" y="{y:.1f}" font-size="13" '
               f'text-anchor="middle" fill="{INK}">{text}</text>')


def _cells(schedule, states, grid):
    """Yield each number of each cell of the animation, with the time during which it is shown."""
    for rank in range(schedule.ranks):
        for chunk in range(schedule.chunks):
            for first, until in _spans(states[:, rank, chunk]):
                shown = _cell(grid, rank, chunk, states[first, rank, chunk], schedule.ranks, 13)
                yield f'<g class="s{first}-{until}" opacity="{int(until == len(states))}">{shown}</g>'


def _spans(values) -> list[tuple[int, int]]:
    """Return the ranges [first, until) of states in which a value does not change."""
    firsts = [0, *(1 + np.flatnonzero(values[1:] != values[:-1])).tolist()]
    return list(zip(firsts, [*firsts[1:], len(values)]))


def _cell(grid, rank, chunk, value, ranks, size, edge=RULE, edge_width=1.0) -> str:
    fill, ink = _shade(value, ranks)
    return _box(grid, rank, chunk, 3, fill, edge, edge_width, _label(value, ranks), size, ink)


def _box(grid, rank, chunk, radius, fill, edge, edge_width, text, size, ink) -> str:
    (x, y), (width, height) = grid.place(rank, chunk), grid.cell
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="{radius}" fill="{fill}" '
            f'stroke="{edge}" stroke-width="{edge_width}"/><text x="{x + width / 2:.1f}" '
            f'y="{y + height / 2 + 0.36 * size:.1f}" font-size="{size}" text-anchor="middle" fill="{ink}">'
            f"{text}</text>")


def _shade(value, ranks) -> tuple[str, str]:
    """Return fill and text colour of a cell. The blue is deeper for numbers with more ranks."""
    part = (_contributions(value) - 1) / max(1, ranks - 1)
    full = tuple(int(BLUE[i:i + 2], 16) for i in (1, 3, 5))
    mixed = [round(a + min(1.0, part) * (b - a)) for a, b in zip(PALE, full)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed), "#ffffff" if part > 0.7 else INK


def _messages(schedule, states, grid):
    """Yield the moving chunks, each from its source's cell to its destination's cell during its round."""
    for number, step in enumerate(schedule.rounds):
        for t in step.transfers:
            added = bool(t.target)
            for chunk in range(t.start, t.stop):
                value = ("+" if added else "") + _label(states[number, t.source, chunk], schedule.ranks)
                fill, ink = (BLUE, "#ffffff") if added else (ORANGE, INK)
                way = (t.destination - t.source) * grid.width
                box = _box(grid, t.source, chunk, 9, fill, "#ffffff", 2, value, 13, ink)
                yield f'<g class="m{number}" opacity="0" style="--way:{way:.1f}px">{box}</g>'


def _strip(schedule, states, top):
    """Return (a strip of all rounds side by side, with frames around changed cells; its bottom)."""
    room, tall = (WIDTH - 2 * MARGIN) / FRAMES, 17 * schedule.chunks + 36
    parts = [f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{top:.1f}" y2="{top:.1f}" stroke="{RULE}"/>']
    for number, state in enumerate(states):
        left, y = MARGIN + number % FRAMES * room, top + 12 + number // FRAMES * tall
        column = (room - 12) / schedule.ranks
        grid = Grid(left + 6, y + 20, column, (column - 3, 15), 2)
        parts.append(f'<rect class="f{number}" opacity="0" x="{left:.1f}" y="{y:.1f}" width="{room - 2:.1f}" '
                     f'height="{tall - 6}" rx="5" fill="none" stroke="{INK}" stroke-width="1.4"/>')
        parts.append(f'<text x="{left + 7:.1f}" y="{y + 14:.1f}" font-size="11" fill="{INK}">{_name(number)}</text>')
        for rank in range(schedule.ranks):
            for chunk in range(schedule.chunks):
                changed = number and state[rank, chunk] != states[number - 1][rank, chunk]
                edge = INK if changed else RULE
                parts.append(_cell(grid, rank, chunk, state[rank, chunk], schedule.ranks, 9.5, edge,
                                   1.6 if changed else 0.6))
    bottom = top + 12 + (len(states) + FRAMES - 1) // FRAMES * tall
    numbers = "" if schedule.ranks <= DIGITS else "Numbers: how many ranks are in it. "
    parts.append(f'<text x="{MARGIN}" y="{bottom + 14:.1f}" font-size="11" fill="{INK}">A column is a rank, a row a '
                 f"chunk. {numbers}The darker a box, the more ranks are in its sum. Framed: new in this round.</text>")
    return parts, bottom + 24


def _style(schedule, states) -> str:
    """Return the style sheet with the times of each state (s), message (m), caption (c) and frame of the strip (f)."""
    rounds = len(schedule.rounds)
    total = BEGIN + rounds * (MOVE + REST) + END
    arrival = [0.0, *(BEGIN + k * (MOVE + REST) + MOVE for k in range(rounds)), total]
    begin = [0.0, *(BEGIN + k * (MOVE + REST) for k in range(rounds)), BEGIN + rounds * (MOVE + REST), total]
    used = sorted({span for ranks in np.moveaxis(states, 0, -1) for values in ranks for span in _spans(values)})
    rules = [_shown(f"s{first}-{until}", arrival[first], arrival[until], total) for first, until in used]
    rules += [_shown(f"c{k}", begin[k], begin[k + 1], total) for k in range(rounds + 2)]
    rules += [_shown(f"f{k}", arrival[k], arrival[k + 1], total) for k in range(rounds + 1)]
    for k in range(rounds):
        a, b = 100 * begin[k + 1] / total, 100 * arrival[k + 1] / total
        rules.append(f"@keyframes m{k}{{0%,{a:.3f}%{{opacity:0;transform:none}}{a + 0.01:.3f}%{{opacity:1;"
                     f"transform:none}}{b:.3f}%{{opacity:1;transform:translateX(var(--way))}}{b + 0.01:.3f}%,100%"
                     f"{{opacity:0;transform:translateX(var(--way))}}}}"
                     f".m{k}{{animation:m{k} {total:.1f}s ease-in-out infinite}}")
    rules.append("@media print,(prefers-reduced-motion:reduce){g,text,rect{animation:none!important}}")
    return "\n".join(["", *rules, ""])


def _shown(name, begin, end, total) -> str:
    """Return the rule that shows elements of a class from ``begin`` to ``end``, seconds of one cycle."""
    before = "" if begin == 0 else "0%{opacity:0}"
    after = "" if end == total else f"{100 * end / total:.3f}%{{opacity:0}}"
    last = f"100%{{opacity:{int(not after)}}}"
    return (f"@keyframes {name}{{{before}{100 * begin / total:.3f}%{{opacity:1}}{after}{last}}}"
            f".{name}{{animation:{name} {total:.1f}s step-end infinite}}")
