"""Experiment 2: shorter and shorter sentences, with alpha from 1 down (docs/paper.md, Sparsity-degree experiment)."""

import numpy as np

from models.registry import entries
from refimpl.experiments.cells.cell import ARCHITECTURES, Cell
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.cells.proportions import PAPER_BYTES_A_SECOND, TITAN_XP
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.parallax.context import Context, plotted

NAME = "sparsity"
RATE = "100mbit"
BY_LENGTH = {model: entry.by_length for model, entry in entries().items() if entry.by_length}
PARTITIONS = 33
TOLERANCE = 0.05  # of a step's time: smaller differences are noise


def slowdown(model: str, measured_seconds: float) -> float:
    """Return the replay's slowdown for all lengths, from the longest. measured_seconds: of its microbatch."""
    case = BY_LENGTH[model]
    on_gpu = case.flop / (TITAN_XP * entries()[model].paper.efficiency)
    sent = case.elements * 4 / PAPER_BYTES_A_SECOND
    ours = case.our_elements * 4 / (parse_rate(RATE) / 8)
    return float(f"{on_gpu / sent * ours / measured_seconds:.3g}")


def cells_of(context: Context, model: str) -> list[Cell]:
    """Return the cells: each length and architecture, on 8 machines of 2 ranks (quick: 2 machines, two lengths)."""
    machines, workloads = 2 if context.quick else 8, [*BY_LENGTH[model].workloads.values()]
    compute, slower = context.compute or "replay", 1.0
    if compute == "replay":
        slower = slowdown(model, context.profile(workloads[0], 2 * machines).mean_seconds)
    return [Cell(NAME, workload, architecture, machines, 2, RATE, compute, slower, 2 if context.quick else 3, warm=1,
                 options={} if architecture in ("allreduce", "naive ps") else {"partitions": PARTITIONS})
            for workload in (workloads[::4] if context.quick else workloads) for architecture in ARCHITECTURES]


def study(context: Context) -> Finding:
    """Run the cells; return tables of step times over alpha, and whether hybrid and auto are as fast as promised."""
    tables, sentences, pictures = zip(*(_study(context, model) for model in BY_LENGTH))
    return Finding("Sparsity degree", [*tables], [*sentences],
                   {f"{NAME}-{model}": picture for model, picture in zip(BY_LENGTH, pictures)})


def _study(context, model):
    """Return a model's table, its sentence about the promises, and its picture."""
    cells = cells_of(context, model)
    found = context.summaries(cells)
    rows, said, lines = [], [], {a: [] for a in ARCHITECTURES}
    for length, workload in BY_LENGTH[model].workloads.items():
        some = {s.cell.contender: s for s in found if s.cell.workload == workload}
        if not some:
            continue
        seconds = {architecture: s.seconds for architecture, s in some.items()}
        chosen = some["auto"].result["strategies"] if "auto" in some else {}
        tables = tables_of(workload)
        of_tables = dict.fromkeys(chosen[name] for name in tables if name in chosen)
        alpha = alpha_of(context.profile(workload, cells[0].ranks), tables)
        rows.append([str(length), f"{alpha:.4f}",
                     *(f"{seconds[a]:.3f}" if a in seconds else "-" for a in ARCHITECTURES),
                     _over(seconds, "naive ps"), _over(seconds, "allreduce"), ", ".join(of_tables) or "-"])
        said += _broken(length, seconds)
        for architecture, taken in seconds.items():
            lines[architecture].append((alpha, 1 / taken))
    table = Table(f"{model}: seconds of a step over the length of a sentence, {cells[0].machines} x 2 ranks, {RATE}",
                  ["length", "alpha", *ARCHITECTURES, "naive ps / hybrid", "allreduce / hybrid",
                   "auto sends rows by"], rows)
    promise = (f"At every length hybrid is at most {TOLERANCE:.0%} slower than the better of allreduce and optimised "
               f"ps, and auto than hybrid.") if not said else "Promises broken: " + " ".join(said)
    return table, f"{model.upper()}: {promise}", plotted(lines, "alpha", f"{model}: steps a second",
                                                         log="x")


def tables_of(workload) -> dict[str, int]:
    """Return name -> rows of the sparse variables with more than one column."""
    return {v.name: v.shape[0] for v in workload.make_model().variables if v.sparse and v.shape[1] > 1}


def alpha_of(profile, tables) -> float:
    """Return the mean part of the tables' rows that a worker touches, over profile and tables."""
    return float(np.mean([len(profile.ids(number)) / tables[name] for row in profile.entries for entry in row
                          for name, number in entry.gradients.items() if name in tables]))


def _over(seconds, architecture) -> str:
    return f"{seconds[architecture] / seconds['hybrid']:.2f}" if {architecture, "hybrid"} <= seconds.keys() else "-"


def _broken(length, seconds) -> list[str]:
    better = min((a for a in ("allreduce", "optimised ps") if a in seconds), key=seconds.get, default="hybrid")
    pairs = [("hybrid", better), ("auto", "hybrid")]
    return [f"length {length}: {slow} takes {seconds[slow]:.3f} s, {fast} {seconds[fast]:.3f} s."
            for slow, fast in pairs
            if {slow, fast} <= seconds.keys() and seconds[slow] > seconds[fast] * (1 + TOLERANCE)]
