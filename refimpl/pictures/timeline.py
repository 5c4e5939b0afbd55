"""The timeline of a training's step, drawn from its trace. Each rank has a lane for computing and one for exchanges.

A trace (trace.json) holds Chrome trace events in microseconds: see ``refimpl.training.run.timeline``.
"""

import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import TypedDict

from msgspec import Struct

from refimpl.json_file import read_json
from refimpl.pictures.picture import (
    BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Picture, figure_in_style, picture_of, plain_axis, table,
)
from refimpl.training.run.timeline import LANES

LOOKS = {  # what -> (phases of the timeline, colour, hatch), drawn in this order: inner spans after outer ones
    "compute": (("compute",), BLUE, ""),
    "update, norm, data": (("update", "norm", "data", "plan"), PURPLE, ""),
    "waiting": (("wait", "waiting for exchange", "agree"), "#e4e4e4", ""),
    "pull": (("pull",), SKY, "\\\\\\\\"),
    "push": (("push",), ORANGE, "////"),
    "allreduce": (("allreduce",), GREEN, "xxxx"),
    "allgather": (("allgather",), VERMILION, "||||"),
}
MOST_TRACE = 1 << 30  # bytes
_WHAT = {phase: what for what, (phases, _, _) in LOOKS.items() for phase in phases}


class _Step(Struct):
    step: int


class _Spent(Struct, tag="X", tag_field="ph"):
    name: str
    pid: int
    tid: int
    ts: float
    dur: float
    args: _Step


class _Named(Struct, tag="M", tag_field="ph"):
    name: str
    pid: int


class _Trace(TypedDict):
    traceEvents: list[_Spent | _Named]


@dataclass(frozen=True)
class Span:
    """An activity of a rank from begin to end, in milliseconds since the first rank began the step. lane: of LANES."""

    rank: int
    lane: int
    what: str
    begin: float
    end: float


def read_trace(path) -> list[dict]:
    """Return the events of a trace.json, or that of a run directory. Local. Raises ValueError if it does not exist."""
    path = Path(path)
    path = path / "trace.json" if path.is_dir() else path
    if not path.exists():
        raise ValueError(f"{path} does not exist: a training writes it with --trace")
    return read_json(path, _Trace, what="a training's trace", remedy="train again with --trace",
                     most_bytes=MOST_TRACE)["traceEvents"]


def typical_step(events: list[dict]) -> list[dict]:
    """Return the events of the step with the (lower) median duration. Local.

    Raises ValueError if no step was traced, or a time is not finite.
    """
    steps: dict[int, list[dict]] = {}
    for event in events:
        if event["ph"] == "X":
            steps.setdefault(event["args"]["step"], []).append(event)
    if not steps:
        raise ValueError("a trace without a step: nothing was trained")
    if not all(math.isfinite(event["ts"] + event["dur"]) for of_step in steps.values() for event in of_step):
        raise ValueError("a trace without finite times: take one that train --trace has written")
    seconds = {step: max(event["ts"] + event["dur"] for event in of_step) - min(event["ts"] for event in of_step)
               for step, of_step in steps.items()}
    chosen = median_low(seconds.values())
    return steps[next(step for step, took in seconds.items() if took == chosen)]


def spans_of(events: list[dict]) -> list[Span]:
    """Return the spans of one step's events, outer spans before inner ones. Local."""
    origin = min(event["ts"] for event in events)
    spans = [Span(event["pid"], event["tid"], _WHAT.get(event["name"], "update, norm, data"),
                  (event["ts"] - origin) / 1e3, (event["ts"] - origin + event["dur"]) / 1e3) for event in events]
    return sorted(spans, key=lambda s: (s.rank, s.lane, s.begin, -s.end))


def draw_timeline(steps: dict[str, list[dict]]) -> Picture:
    """Draw one step of each training on one scale: title -> the events of a step (see ``typical_step``). Local."""
    from matplotlib.patches import Patch

    spans = {title: spans_of(events) for title, events in steps.items()}
    ranks = {title: 1 + max(span.rank for span in of_step) for title, of_step in spans.items()}
    longest = max(span.end for of_step in spans.values() for span in of_step)
    heights = [0.55 + 0.42 * count for count in ranks.values()]
    with figure_in_style(8.6, 0.9 + sum(heights), nrows=len(spans), sharex=True, squeeze=False,
                         gridspec_kw={"height_ratios": heights}) as (figure, grid):
        for axes, (title, of_step) in zip(grid[:, 0], spans.items()):
            _draw_step(axes, title, of_step, ranks[title])
        grid[-1, 0].set_xlabel("milliseconds of the step")
        grid[-1, 0].set_xlim(0, 1.02 * longest)
        seen = {span.what for of_step in spans.values() for span in of_step}
        keys = [Patch(facecolor=colour, hatch=hatch, edgecolor="#444444", linewidth=0.5, label=what)
                for what, (_, colour, hatch) in LOOKS.items() if what in seen]
        figure.legend(handles=keys, loc="outside lower center", ncols=4)
        ends = {title: max(span.end for span in of_step) for title, of_step in spans.items()}
        alt = "What each rank did in a step, its exchanges below its computation: " + "; ".join(
            f"{title}, {end:.0f} ms" for title, end in ends.items())
        return picture_of(figure, alt, _numbers(spans))


def _draw_step(axes, title, spans, ranks):
    end = max(span.end for span in spans)
    lanes = 1 + max(span.lane for span in spans)
    for what, (_, colour, hatch) in LOOKS.items():
        for place, height, chosen in _bars(spans, what, lanes):
            axes.broken_barh([(s.begin, s.end - s.begin) for s in chosen], (place - height / 2, height),
                             facecolor=colour, hatch=hatch, edgecolor="#444444" if hatch else colour, linewidth=0.3)
    axes.axvline(end, color="black", linewidth=1.2)
    axes.text(end, -0.52, f"{end:.0f} ms ", ha="right", va="bottom", fontsize=9)
    axes.set(ylim=(ranks - 0.42, -0.58), title=title)
    axes.set_yticks(range(ranks), [f"rank {rank}" for rank in range(ranks)])
    plain_axis(axes, "y")
    axes.spines["left"].set_visible(False)


def _bars(spans, what, lanes):
    """Yield (middle, height, spans) of each rank's lanes: computation above, exchanges below."""
    for rank, lane in sorted({(span.rank, span.lane) for span in spans if span.what == what}):
        chosen = [s for s in spans if (s.rank, s.lane, s.what) == (rank, lane, what)]
        yield (rank, 0.7, chosen) if lanes == 1 else (rank + (-0.19, 0.2)[lane], 0.36, chosen)


def _numbers(spans) -> str:
    """Return a table: milliseconds of each rank in each activity, by title. Inner spans count only for themselves."""
    rows, seen = [], [what for what in LOOKS if any(s.what == what for of_step in spans.values() for s in of_step)]
    for title, of_step in spans.items():
        own = own_milliseconds(of_step)
        for rank, lane in sorted({(span.rank, span.lane) for span in of_step}):
            rows.append([title, rank, LANES[lane], *(f"{own.get((rank, lane, what), 0.0):.1f}" for what in seen)])
    return table(["milliseconds", "rank", "lane", *seen], rows)


def own_milliseconds(spans: list[Span]) -> dict[tuple[int, int, str], float]:
    """Return (rank, lane, what) -> milliseconds in it, without inner spans. Local."""
    own: dict[tuple[int, int, str], float] = defaultdict(float)
    around: list[Span] = []
    for span in spans:
        while around and (around[-1].rank, around[-1].lane, around[-1].end) < (span.rank, span.lane, span.end):
            around.pop()
        own[span.rank, span.lane, span.what] += span.end - span.begin
        if around:
            own[span.rank, span.lane, around[-1].what] -= span.end - span.begin
        around.append(span)
    return own
