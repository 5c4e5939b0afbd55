"""Experiment 1: words and images a second of each architecture, on more and more machines; the headline at 8 x 6."""

from dataclasses import replace

from models.registry import workloads_for
from refimpl.experiments.parallax.cells.cell import ARCHITECTURES, Cell
from refimpl.experiments.parallax.cells.plans import predicted_exchange
from refimpl.experiments.parallax.proportions import PAPER, slowdown_of
from refimpl.experiments.parallax.study import Context, Finding, Table, bytes_of, speed_of

NAME = "throughput"
RATE = "100mbit"
CPU_BOUND = 0.8  # of the cores' time
EQUAL = 0.03  # a model without sparse variables under hybrid and allreduce
STEPS = {"allreduce": (1, 2), "naive ps": (1, 2)}  # (warm, counted) of the slow ones
OTHER_STEPS, DENSE_STEPS, QUICK_STEPS = (1, 5), (1, 4), (1, 2)


def cells_of(context: Context) -> list[Cell]:
    """Return the cells: 1, 2, 4, 8 machines of 6 ranks replayed, and of 2 ranks with real computation."""
    series = {"replay": (6, (8, 4, 2, 1)), "real": (2, (8, 4, 2, 1))}  # the headline first
    if context.quick:
        series = {"replay": (2, (4, 2, 1)), "real": (2, (2,))}
    cells = []
    for compute, (each, machines) in series.items():
        compute = context.compute or compute
        for count in machines:
            cells += [_cell(context, workload, architecture, count, each, compute)
                      for workload in workloads_for(NAME) for architecture in ARCHITECTURES]
    return list({cell.file: cell for cell in cells}.values())


def _cell(context, workload, architecture, machines, each, compute):
    cell = Cell(NAME, workload, architecture, machines, each, RATE, compute)
    warm, steps = STEPS.get(architecture, OTHER_STEPS) if PAPER[workload.model].sparse else DENSE_STEPS
    if context.quick:
        warm, steps = QUICK_STEPS
    slowdown = 1.0
    if compute == "replay":
        slowdown = slowdown_of(workload, RATE, context.profile(workload).mean_seconds)
    return replace(cell, slowdown=slowdown, steps=steps, warm=warm)


def study(context: Context) -> Finding:
    """Run the cells; return tables, curves and sentences."""
    cells = cells_of(context)
    found = context.summaries(cells)
    tables = [_speeds(found, model, compute) for model in PAPER for compute in ("replay", "real")
              if any(s.cell.workload.model == model and s.cell.compute == compute for s in found)]
    largest = [s for s in found if s.cell.compute == "replay"] or found
    most = max((s.cell.ranks for s in largest), default=0)
    headline = [s for s in largest if s.cell.ranks == most]
    predicted = {s.cell.file: _predicted(s, context) for s in headline}
    tables += [_details(headline, predicted), _ratios(headline, predicted)]
    return Finding(NAME, "Throughput", tables, _sentences(headline, largest), _curves(found))


def _speeds(found, model, compute) -> Table:
    """Table of speeds: architectures down, machines across."""
    some = [s for s in found if s.cell.workload.model == model and s.cell.compute == compute]
    clusters = sorted({(s.cell.machines, s.cell.ranks_per_machine) for s in some})
    rows = []
    for architecture in ARCHITECTURES:
        speeds = {(s.cell.machines, s.cell.ranks_per_machine): s for s in some if s.cell.architecture == architecture}
        rows.append([architecture, *(speed_of(speeds.get(cluster)) for cluster in clusters)])
    label = {"replay": "replayed", "real": "real computation"}[compute]
    return Table(f"{model}: {some[0].cell.workload.entry.unit} a second, {label}, cards of {RATE}",
                 ["architecture", *(f"{m} x {r}" for m, r in clusters)], rows)


def _predicted(summary, context) -> tuple[float, float]:
    """Return predicted seconds of computation and of exchanges."""
    cell, profile = summary.cell, context.profile(summary.cell.workload)
    computing = profile.slowest_seconds(cell.ranks) * cell.slowdown  # all wait for the slowest
    return computing, predicted_exchange(cell, profile, summary.result["strategies"])


def _details(headline, predicted) -> Table:
    """Table of bytes, prediction and measurement of the largest cluster."""
    rows = []
    for s in headline:
        cell, (computing, exchange) = s.cell, predicted[s.cell.file]
        rows.append([cell.workload.name, cell.architecture, bytes_of(s.out), bytes_of(s.into), f"{computing:.3f}",
                     f"{exchange:.3f}", f"{computing + exchange:.3f}", f"{s.seconds:.3f}", f"{100 * s.spread:.0f} %",
                     f"{100 * s.busy:.0f} %"])
    return Table("Bytes a step between machines (of the machine with most), prediction and measurement, seconds",
                 ["model", "architecture", "out", "in", "computation", "exchange", "sum, predicted", "measured",
                  "spread", "cores busy"], rows)


def ratio(headline, model: str, over: str, under: str = "hybrid") -> float | None:
    """Return the speed of ``under`` over that of ``over`` for a model; None where one was not measured."""
    speed = {s.cell.architecture: s.speed for s in headline if s.cell.workload.model == model}
    return speed[under] / speed[over] if {over, under} <= speed.keys() else None


def _ratios(headline, predicted) -> Table:
    """Table of ratios: predicted from bytes and computation, measured, and the abstract's."""
    rows = []
    seconds = {(s.cell.workload.model, s.cell.architecture): sum(predicted[s.cell.file]) for s in headline}
    for model, paper in PAPER.items():
        for over in ("allreduce", "naive ps", "optimised ps"):
            measured, goal = ratio(headline, model, over), paper.goals.get(over)
            if measured is not None:
                expected = seconds[model, over] / seconds[model, "hybrid"]
                judged = ["-", "-"] if goal is None else [f"{goal:.2f}", "yes" if measured >= goal else "no"]
                rows.append([model, f"hybrid / {over}", f"{expected:.2f}", f"{measured:.2f}", *judged])
        if (both := ratio(headline, model, "hybrid", "auto")) is not None:
            expected = seconds[model, "hybrid"] / seconds[model, "auto"]
            rows.append([model, "auto / hybrid", f"{expected:.2f}", f"{both:.2f}", "-", "-"])
    where = f"{headline[0].cell.machines} x {headline[0].cell.ranks_per_machine}" if headline else "none"
    return Table(f"Ratios of speed at {where}, beside the abstract's", ["model", "ratio", "predicted", "measured",
                 "abstract", "reached"], rows)


def _sentences(headline, series) -> list[str]:
    """Return what the numbers say, in words."""
    said = [f"{s.cell.workload.name}, {s.cell.architecture}: the ranks keep the cores {100 * s.busy:.0f} % busy: "
            "not the cards alone set the pace." for s in headline if s.busy > CPU_BOUND]
    for model in (m for m, paper in PAPER.items() if not paper.sparse):
        equal = ratio(headline, model, "allreduce")
        if equal is not None:
            near = "within" if abs(equal - 1) <= EQUAL else "not within"
            said.append(f"{model.upper()}: hybrid runs at {equal:.3f} of allreduce's speed ({near} {100 * EQUAL:.0f} "
                        "%): without a sparse variable the two are one plan.")
    pairs = [(m, a) for m, paper in PAPER.items() if paper.sparse for a in ("hybrid", "allreduce")]
    return said + [_scaling(series, *pair) for pair in pairs if len(_by_machines(series, *pair)) > 1]


def _by_machines(series, model, architecture) -> list:
    """Return the summaries of a model under an architecture, fewest machines first."""
    some = [s for s in series if (s.cell.workload.model, s.cell.architecture) == (model, architecture)]
    return sorted(some, key=lambda s: s.cell.machines)


def _scaling(series, model, architecture) -> str:
    """Return what each doubling of the machines gains, in words."""
    found = _by_machines(series, model, architecture)
    gains = ", ".join(f"{b.speed / a.speed:.2f}" for a, b in zip(found, found[1:]))
    return (f"{model.upper()}, {architecture}: each doubling of the machines multiplies the "
            f"{found[0].cell.workload.entry.unit} a second by {gains}.")


def _curves(found) -> list:
    """Return (title, x label, y label, {architecture: [(x, y)]}) of each model and kind of computation."""
    curves = []
    for model, compute in dict.fromkeys((s.cell.workload.model, s.cell.compute) for s in found):
        some = [s for s in found if (s.cell.workload.model, s.cell.compute) == (model, compute)]
        lines = {a: [(s.cell.machines, s.speed) for s in some if s.cell.architecture == a] for a in ARCHITECTURES}
        each = some[0].cell.ranks_per_machine
        unit = some[0].cell.workload.entry.unit
        curves.append((f"{model}, {compute}", f"machines of {each} ranks", f"{unit} a second", lines))
    return curves
