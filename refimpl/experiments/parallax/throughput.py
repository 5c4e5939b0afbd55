"""Experiment 1: words and images a second of each architecture on 1 to 8 machines; the headline is at 8 x 6."""

from itertools import product

from models.registry import workloads_for
from refimpl.experiments.cells.cell import ARCHITECTURES, Cell
from refimpl.experiments.cells.report import Finding, Table, bytes_of
from refimpl.experiments.cells.proportions import PAPER, slowdown_of
from refimpl.experiments.parallax.plans import predicted_exchange
from refimpl.experiments.parallax.context import Context, plotted

NAME = "throughput"
RATE = "100mbit"
CPU_BOUND = 0.8  # part of the cores' time from which on the cards alone do not set the pace
EQUAL = 0.03  # largest difference of hybrid and allreduce for a model without sparse variables
STEPS = {"allreduce": (1, 2), "naive ps": (1, 2)}  # (warm, counted) of the slow ones
OTHER_STEPS, DENSE_STEPS, QUICK_STEPS = (1, 5), (1, 4), (1, 2)
LABELS = {"replay": "replayed", "real": "real computation"}


def cells_of(context: Context) -> list[Cell]:
    """Return the cells: 1, 2, 4, 8 machines of 6 ranks replayed, and of 2 ranks with real computation."""
    series = {"replay": (6, (8, 4, 2, 1)), "real": (2, (8, 4, 2, 1))}  # the headline first
    if context.quick:
        series = {"replay": (2, (4, 2, 1)), "real": (2, (2,))}
    cells = [_cell(context, workload, architecture, count, each, context.compute or compute)
             for compute, (each, machines) in series.items() for count in machines
             for workload in workloads_for(NAME) for architecture in ARCHITECTURES]
    return list({cell.file: cell for cell in cells}.values())  # with --compute, two can be the same


def _cell(context, workload, architecture, machines, each, compute):
    warm, steps = STEPS.get(architecture, OTHER_STEPS) if PAPER[workload.model].sparse else DENSE_STEPS
    if context.quick:
        warm, steps = QUICK_STEPS
    slowdown = slowdown_of(workload, RATE, context.profile(workload).mean_seconds) if compute == "replay" else 1.0
    return Cell(NAME, workload, architecture, machines, each, RATE, compute, slowdown, steps, warm)


def study(context: Context) -> Finding:
    """Run the cells; return tables, pictures and sentences."""
    found = context.summaries(cells_of(context))
    series: dict[tuple, list] = {}
    for s in found:
        series.setdefault((s.cell.workload.model, s.cell.compute), []).append(s)
    tables = [_speeds(series[of], *of) for of in product(PAPER, LABELS) if of in series]
    largest = [s for s in found if s.cell.compute == "replay"] or found
    most = max((s.cell.ranks for s in largest), default=0)
    headline = [s for s in largest if s.cell.ranks == most]
    predicted = {s.cell.file: _predicted(s, context) for s in headline}
    tables += [_details(headline, predicted), _ratios(headline, predicted)]
    return Finding("Throughput", tables, _sentences(headline, largest),
                   {f"{NAME}-{'-'.join(of)}": _picture(some, *of) for of, some in series.items()})


def _speeds(found, model, compute) -> Table:
    speeds = {(s.cell.contender, s.cell.machines, s.cell.ranks_per_machine):
              f"{s.speed:,.0f}" if s.speed >= 100 else f"{s.speed:.1f}" for s in found}
    clusters = sorted({cluster[1:] for cluster in speeds})
    rows = [[architecture, *(speeds.get((architecture, *cluster), "-") for cluster in clusters)]
            for architecture in ARCHITECTURES]
    return Table(f"{model}: {found[0].cell.workload.entry.unit} a second, {LABELS[compute]}, cards of {RATE}",
                 ["architecture", *(f"{m} x {r}" for m, r in clusters)], rows)


def _predicted(summary, context) -> tuple[float, float]:
    cell, profile = summary.cell, context.profile(summary.cell.workload)
    computing = profile.slowest_seconds(cell.ranks) * cell.slowdown  # all wait for the slowest
    return computing, predicted_exchange(cell, profile, summary.result["strategies"])


def _details(headline, predicted) -> Table:
    rows = []
    for s in headline:
        cell, (computing, exchange) = s.cell, predicted[s.cell.file]
        rows.append([cell.workload.name, cell.contender, bytes_of(s.out), bytes_of(s.into), f"{computing:.3f}",
                     f"{exchange:.3f}", f"{computing + exchange:.3f}", f"{s.seconds:.3f}", f"{100 * s.spread:.0f} %",
                     f"{100 * s.busy:.0f} %"])
    return Table("Bytes a step between machines (of the machine with most), prediction and measurement, seconds",
                 ["model", "architecture", "out", "in", "computation", "exchange", "sum, predicted", "measured",
                  "spread", "cores busy"], rows)


def ratio(headline, model: str, over: str, under: str = "hybrid") -> float | None:
    """Return a model's speed with ``under``, divided by that with ``over``; None if one was not measured."""
    speed = {s.cell.contender: s.speed for s in headline if s.cell.workload.model == model}
    return speed[under] / speed[over] if {over, under} <= speed.keys() else None


def _ratios(headline, predicted) -> Table:
    """Return the table of ratios: predicted from bytes and computation, measured, and the abstract's."""
    rows = []
    seconds = {(s.cell.workload.model, s.cell.contender): sum(predicted[s.cell.file]) for s in headline}
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
    said = [f"{s.cell.workload.name}, {s.cell.contender}: the ranks keep the cores {100 * s.busy:.0f} % busy: "
            "not the cards alone set the pace." for s in headline if s.busy > CPU_BOUND]
    for model in (m for m, paper in PAPER.items() if not paper.sparse):
        equal = ratio(headline, model, "allreduce")
        if equal is not None:
            near = "within" if abs(equal - 1) <= EQUAL else "not within"
            said.append(f"{model.upper()}: hybrid runs at {equal:.3f} of allreduce's speed ({near} {100 * EQUAL:.0f} "
                        "%): without a sparse variable the two are one plan.")
    for model, architecture in product((m for m, paper in PAPER.items() if paper.sparse), ("hybrid", "allreduce")):
        some = sorted((s for s in series if (s.cell.workload.model, s.cell.contender) == (model, architecture)),
                      key=lambda s: s.cell.machines)
        if len(some) > 1:
            gains = ", ".join(f"{b.speed / a.speed:.2f}" for a, b in zip(some, some[1:]))
            said.append(f"{model.upper()}, {architecture}: each doubling of the machines multiplies the "
                        f"{some[0].cell.workload.entry.unit} a second by {gains}.")
    return said


def _picture(found, model, compute):
    lines = {a: [(s.cell.machines, s.speed) for s in found if s.cell.contender == a] for a in ARCHITECTURES}
    each, unit = found[0].cell.ranks_per_machine, found[0].cell.workload.entry.unit
    return plotted(lines, f"machines of {each} ranks", f"{model}, {LABELS[compute]}: {unit} a second", log="xy",
                   ticks=sorted({s.cell.machines for s in found}))
