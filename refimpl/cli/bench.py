"""Measure our kernels and our training step beside their peers, one thread each, in one run.

A peer that is not installed is named on stderr and left out.
"""

import importlib
import json
import math

HELP = "race our kernels and the training step against NumPy and PyTorch, one thread each"
REFUSALS = (ValueError,)
BENCHES = ("rows", "lstm", "conv", "step")
REACH = {"aggregate-rows": 2.5, "aggregate-rows-vs-numpy": 30.0, "lstm": 1.0, "conv": 0.8, "lm-step": 1.0,
         "microbatches": 0.9}
"""The ratio that each work should reach: best peer's seconds / our seconds."""


def add(parser):
    parser.add_argument("bench", choices=BENCHES)
    parser.add_argument("--seconds", type=_seconds, metavar="S", help="time for each race (default: as its noise asks)")
    parser.add_argument("--rounds", type=_rounds, metavar="N", help="interleaved rounds, of which the median counts")
    parser.add_argument("--json", action="store_true", help="print only the result, as one JSON object")


def run(given: dict) -> int:
    from threadpoolctl import threadpool_limits

    from refimpl.experiments.bench.timing import report

    bench = importlib.import_module(f"refimpl.experiments.bench.{given['bench']}")
    length = {name: given[name] for name in ("seconds", "rounds") if name in given}
    with threadpool_limits(1):
        result = report(bench.run(**length))
    if given.get("json"):
        print(json.dumps(result))
    else:
        _print_table(given["bench"], result)
    return 0


def table_rows(result: dict) -> list[tuple[str, ...]]:
    """Return (work, size, who, time, ratio, reach) as text for each timing; reach stands at a work's best peer. Local.

    ratio: the peer's seconds / our best seconds.
    """
    lines, rows = [], result["rows"]
    for row in rows:
        alike = [r for r in rows if r["work"] == row["work"]]
        ours = min((r["seconds"] for r in alike if not r["peer"]), default=math.nan)
        best = min((r["seconds"] for r in alike if r["peer"]), default=math.nan)
        ratio = f"{row['seconds'] / ours:.2f} x" if row["peer"] else ""
        is_best = row["peer"] and row["seconds"] == best
        lines.append((row["work"], row["size"], row["name"], _time(row["seconds"]), ratio,
                      _verdict(row["work"], best / ours) if is_best else ""))
    return lines


def _verdict(work, ratio) -> str:
    if work not in REACH:
        return ""
    return f">= {REACH[work]:g}" if ratio >= REACH[work] else f">= {REACH[work]:g} MISSED"


def _time(seconds: float) -> str:
    scale, unit = (1e3, "ms") if seconds < 1 else (1, "s")
    return f"{seconds * scale:.3g} {unit}"


def _print_table(name, result):
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"bench {name}: one thread each; ratio = peer's time / our time")
    for column, justify in (("work", "left"), ("size", "left"), ("who", "left"), ("time", "right"), ("ratio", "right"),
                            ("reach", "left")):
        table.add_column(column, justify=justify, no_wrap=column != "size")
    last = None
    for work, size, *rest, reach in table_rows(result):
        if last not in (None, work):
            table.add_section()
        repeated, last = work == last, work
        mark = f"[bold red]{reach}[/]" if "MISSED" in reach else reach
        table.add_row("" if repeated else work, "" if repeated else size, *rest, mark)
    console = Console()
    if not console.is_terminal:
        console.width = 120
    console.print(table)


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


def _rounds(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number
