"""Experiment 3: throughput over the number of partitions P, the fitted curve, and the P that the search finds."""

from dataclasses import replace
from itertools import chain

from models.registry import workloads_for
from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.cells.proportions import slowdown_of
from refimpl.experiments.parallax.context import Context, plotted
from refimpl.plan.partitions.search import fit_curve

NAME = "partitions"
RATE = "100mbit"
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128)
NEAR = 0.05  # the searched P may be this part slower than the best
WORKLOADS = workloads_for(NAME)
SEARCH = {"search_partitions": True, "search_warmup": 1, "search_sample": 3}


def cells_of(context: Context, workload) -> list[Cell]:
    """Return a cell for each P, and one that searches; all hybrid."""
    machines, counts = (2, (1, 4, 16)) if context.quick else (8, COUNTS)
    compute = context.compute or "replay"
    slower = slowdown_of(workload, RATE, context.profile(workload).mean_seconds) if compute == "replay" else 1.0
    plain = Cell(NAME, workload, "hybrid", machines, 2, RATE, compute, slower, steps=2 if context.quick else 5, warm=1)
    return [*(replace(plain, options={"partitions": count}) for count in counts), replace(plain, options=SEARCH)]


def study(context: Context) -> Finding:
    """Run the cells; return measured and fitted times, and how far the searched P is from the best."""
    tables, sentences, pictures = zip(*(_study(cells_of(context, workload), context, workload.model.upper())
                                        for workload in WORKLOADS))
    return Finding("Partitions", [*chain(*tables)], [*chain(*sentences)],
                   {f"{NAME}-{workload.model}": picture for workload, picture in zip(WORKLOADS, pictures)})


def _study(cells, context, title):
    """Return tables, sentences and the picture of a model's cells."""
    found = context.summaries(cells)
    fixed = {s.cell.options["partitions"]: s for s in found if "partitions" in s.cell.options}
    fit = fit_curve({count: s.seconds for count, s in fixed.items()}) if len(fixed) >= 3 else None
    rows = [[str(count), f"{s.seconds:.3f}", "-" if fit is None else f"{fit.seconds(count):.3f}", f"{s.speed:,.0f}",
             f"{100 * s.spread:.0f} %"] for count, s in fixed.items()]
    tables = [Table(f"{title}, hybrid, {cells[0].machines} x 2 ranks, {RATE}: seconds of a step over P",
                    ["P", "measured", "fitted", "words a second", "spread"], rows)]
    sentences, lines = [], {"measured": [(count, s.speed) for count, s in fixed.items()]}
    if fit is not None:
        sentences.append(f"{title}: fit through all: {fit.theta0:.4g} + {fit.theta1:.4g}/P + {fit.theta2:.4g} P "
                         "seconds.")
        examples = cells[0].workload.examples * cells[0].ranks
        lines["fitted"] = [(count, examples / fit.seconds(count)) for count in fixed]
    searching = next((s for s in found if s.cell.options.get("search_partitions")), None)
    if searching is not None and fixed:
        walk = [[str(s["partitions"]), f"{s['seconds']:.3f}"] for s in searching.result["search"]["samples"]]
        tables.append(Table(f"{title}: what the search tried, in its order", ["P", "seconds"], walk))
        sentences.append(_verdict(title, searching, fixed))
    return tables, sentences, plotted(lines, "partitions P", f"{title}, hybrid: words a second", log="x",
                                      ticks=[*fixed])


def _verdict(title, searching, fixed) -> str:
    chosen = searching.result["search"]["chosen"]
    best = min(fixed, key=lambda count: fixed[count].seconds)
    near = searching.seconds / fixed[best].seconds - 1
    return (f"{title}: the search chose P = {chosen}: {searching.seconds:.3f} s a step, {100 * near:+.1f} % of the "
            f"best measured, P = {best} ({fixed[best].seconds:.3f} s): {'within' if near <= NEAR else 'not within'} "
            f"{100 * NEAR:.0f} %.")
