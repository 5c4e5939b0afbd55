"""One part of the report: a model's steps at each rate, predicted for other rates, and its way to a held-out loss."""

import statistics
from dataclasses import replace

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.compression import BASE, CODECS, DDP, RATE, RECIPES
from refimpl.experiments.job import measure
from refimpl.pictures.lines import Line, plot_lines

RANKS = "refimpl.experiments.compression.ranks:"
RATES = "100mbit", RATE, "1gbit"
"""The measured rates. Two cores cannot send faster."""
FORESEEN = "100mbit", RATE, "1gbit", "10gbit"
FULL = {"machines": 8, "seconds": 40, "rounds": 5, "steps": 80, "every": 4}
QUICK = {"machines": 4, "seconds": 1, "rounds": 3, "steps": 12, "every": 4}
GOAL = 1.6
"""The aim: bf16 or integers should train a model of dense weights to the same loss so many times as fast as float32."""
NO_GAIN = 1.05


def study(part: str, quick: bool) -> Finding:
    """Measure a model of RECIPES. Local; launches the ranks."""
    size = QUICK if quick else FULL
    machines, recipe = size["machines"], replace(RECIPES[part], microbatches=size["machines"]).to_json()
    raced = {rate: measure(RANKS + "race", {"recipe": recipe, "seconds": size["seconds"], "rounds": size["rounds"]}, 1,
                           machines, 1800, rate) for rate in ((RATE,) if quick else RATES)}
    curves = measure(RANKS + "learn", {"recipe": recipe, "steps": size["steps"], "every": size["every"]}, machines,
                     timeout=1800)
    return finding(part, machines, raced, curves)


def finding(part: str, machines: int, raced: dict, curves: dict) -> Finding:
    """Return tables, sentences and charts. raced: rate -> of ``ranks.race``.  curves: of ``ranks.learn``. Local."""
    splits = {rate: {name: split(rate, name, record) for name in record} for rate, record in raced.items()}
    reached = steps_to_loss(curves)
    all_rows = [_row(rate, name, splits, raced, reached) for rate in raced for name in raced[rate]]
    table = Table(f"{part}: milliseconds of a step, and how many times as fast as the same side's float32", [
        "network", "codec", "step", "computation", "coding", "line", "rest", "times", "turn by turn", "MB a step",
        "steps", "MB to the loss"], all_rows)
    times = {rate: {name: foreseen(splits, rate, base_of(name)) / foreseen(splits, rate, name)
                    for name in splits[RATE]} for rate in FORESEEN}
    ahead = Table(f"{part}: times as fast as float32, foreseen from the step at {RATE} with other cards", [
        "codec", *FORESEEN], [[name, *(f"{times[rate][name]:.2f}" for rate in FORESEEN)] for name in splits[RATE]])
    lines = [Line(name, [parse_rate(rate) / 1e6 for rate in FORESEEN], [times[rate][name] for rate in FORESEEN], style)
             for style, name in enumerate(n for n in splits[RATE] if n not in (BASE, DDP))]
    picture = plot_lines(lines, "Mbit/s of each card", "times as fast as float32",
                         f"{part}: what encoding gains at each rate", log="x")
    said = _sentences(part, splits, times, reached)
    losses = plot_lines([Line(name, *zip(*curve), style) for style, (name, curve) in enumerate(curves.items())],
                        "step", "held-out loss", f"{part}: the held-out loss over the steps")
    return Finding(f"{part}: {RECIPES[part].data}, {machines} machines", [table, ahead], said, pictures={
        f"compression-{part}": picture, f"compression-{part}-loss": losses})


def base_of(name: str) -> str:
    """Return the float32 training of the same side."""
    return BASE if name in CODECS else DDP


def split(rate: str, name: str, record: dict) -> dict:
    """Return seconds of a step and of its parts. record: name -> of ``ranks.race``. Local."""
    mine, base = record[name], record[base_of(name)]
    line = 8 * max(mine["card"]) / parse_rate(rate)
    found = {"step": statistics.median(mine["seconds"]), "computation": base["alone"],
             "coding": mine["alone"] - base["alone"], "line": line}
    return {**found, "rest": found["step"] - found["computation"] - found["coding"] - line}


def foreseen(splits: dict, rate: str, name: str) -> float:
    """Return a step's predicted seconds at another rate: only the line's seconds change."""
    mine = splits[RATE][name]
    fixed = max(mine["step"] - mine["line"], mine["computation"] + mine["coding"])
    return fixed + mine["line"] * parse_rate(RATE) / parse_rate(rate)


def steps_to_loss(curves: dict) -> dict[str, int | None]:
    """Return name -> the first step with at most the loss of float32 after three quarters of its steps; None: never."""
    goal = curves[BASE][len(curves[BASE]) * 3 // 4 - 1][1]
    return {name: next((step for step, loss in curve if loss <= goal), None) for name, curve in curves.items()}


def _row(rate, name, splits, raced, reached) -> list[str]:
    mine, steps = splits[rate][name], reached.get(name)
    pairs = sorted(base / took for base, took in zip(raced[rate][base_of(name)]["seconds"],
                                                     raced[rate][name]["seconds"]))
    moved = max(raced[rate][name]["card"]) / 1e6
    return [rate, name, *(f"{1e3 * mine[part]:.0f}" for part in ("step", "computation", "coding", "line", "rest")),
            f"{splits[rate][base_of(name)]['step'] / mine['step']:.2f}", f"{pairs[0]:.2f} to {pairs[-1]:.2f}",
            f"{moved:.2f}", str(steps or "-"), f"{moved * steps:.0f}" if steps else "-"]


def _sentences(part, splits, times, reached) -> list[str]:
    """Return sentences: where a codec gains nothing, and whether the aim is reached."""
    said = [f"At {rate} these gain less than {NO_GAIN:.2f} x: {', '.join(idle)}." for rate in FORESEEN
            if (idle := [name for name, gain in times[rate].items() if name not in (BASE, DDP) and gain < NO_GAIN])]
    if part == "vgg":
        best = max(("bf16", "integers:16", "integers:8"), key=lambda name: (
            splits[RATE][BASE]["step"] / splits[RATE][name]["step"] if reached.get(name) else 0))
        gain = splits[RATE][BASE]["step"] / splits[RATE][best]["step"]
        said.append(f"At {RATE} {best} is {gain:.2f} x as fast as float32 and reaches its held-out loss in "
                    f"{reached[best]} steps, float32 in {reached[BASE]}: {'at least' if gain >= GOAL else 'LESS THAN'} "
                    f"the {GOAL:g} x that was the aim.")
    return said
