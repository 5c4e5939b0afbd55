"""Experiment 2: sentences from 120 words down to 1, alpha from 1 down (docs/paper.md, Sparsity-degree experiment)."""

from dataclasses import replace

import numpy as np

from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.parallax.cells.cell import ARCHITECTURES, Cell
from refimpl.experiments.parallax.proportions import PAPER_BYTES_A_SECOND, TITAN_XP
from refimpl.experiments.parallax.study import Context, Finding, Table

NAME = "sparsity"
RATE = "100mbit"
LENGTHS = (120, 60, 30, 12, 4, 1)
LONGEST, *_ = workloads_for(NAME)
BATCH, VOCABULARY, WIDTH = LONGEST.shape["streams"], LONGEST.sizes["vocabulary"], LONGEST.sizes["embedding"]
PARTITIONS = 33
TOLERANCE = 0.05  # of a step's time: less is the cluster's noise


def workload_of(length: int) -> Workload:
    """Return the model that reads ``length`` words of each stream, with as many candidates as words."""
    return replace(LONGEST, name=f"length-{length}", sizes={**LONGEST.sizes, "samples": BATCH * length},
                   shape={**LONGEST.shape, "window": length})


def slowdown(measured_seconds: float) -> float:
    """Return the replay's slowdown at any length: the paper's at 120. measured_seconds: of such a microbatch, alone."""
    words, dense = 128 * 120, 2 * WIDTH * 4 * WIDTH
    on_gpu = 6 * words * (dense + words * WIDTH) / (TITAN_XP * LONGEST.entry.paper.efficiency)
    one_table = 15_360 * WIDTH * 4 / PAPER_BYTES_A_SECOND
    ours = VOCABULARY * WIDTH * 4 / (parse_rate(RATE) / 8)
    return float(f"{on_gpu / one_table * ours / measured_seconds:.3g}")


def cells_of(context: Context) -> list[Cell]:
    """Return the cells: every length under every architecture on 8 machines of 2 (quick: 2 of 2, two lengths)."""
    machines, lengths = (2, (120, 4)) if context.quick else (8, LENGTHS)
    slower = slowdown(context.profile(workload_of(120), 2 * machines).mean_seconds)
    compute = context.compute or "replay"
    return [Cell(NAME, workload_of(length), architecture, machines, 2, RATE, compute,
                 slower if compute == "replay" else 1.0, steps=2 if context.quick else 3, warm=1,
                 options={} if architecture in ("allreduce", "naive ps") else {"partitions": PARTITIONS})
            for length in lengths for architecture in ARCHITECTURES]


def study(context: Context) -> Finding:
    """Run the cells; return the table of step times over alpha, and whether hybrid and auto keep their promises."""
    cells = cells_of(context)
    found = context.summaries(cells)
    rows, said, lines = [], [], {a: [] for a in ARCHITECTURES}
    for length in dict.fromkeys(c.workload.shape["window"] for c in cells):
        some = {s.cell.architecture: s for s in found if s.cell.workload.shape["window"] == length}
        seconds = {architecture: s.seconds for architecture, s in some.items()}
        chosen = some["auto"].result["strategies"] if "auto" in some else {}
        of_tables = dict.fromkeys(chosen[name] for name in ("embedding", "softmax_weight") if name in chosen)
        alpha = alpha_of(context.profile(workload_of(length), cells[0].ranks))
        rows.append([str(length), f"{alpha:.4f}",
                     *(f"{seconds[a]:.3f}" if a in seconds else "-" for a in ARCHITECTURES),
                     _over(seconds, "naive ps"), _over(seconds, "allreduce"), ", ".join(of_tables) or "-"])
        said += _broken(length, seconds)
        for architecture, taken in seconds.items():
            lines[architecture].append((alpha, 1 / taken))
    table = Table(f"Seconds of a step over the length of a sentence, {cells[0].machines} x 2 ranks, {RATE}",
                  ["length", "alpha", *ARCHITECTURES, "naive ps / hybrid", "allreduce / hybrid",
                   "auto sends rows by"], rows)
    promise = (f"At every length hybrid is at most {TOLERANCE:.0%} slower than the better of allreduce and optimised "
               f"ps, and auto than hybrid.") if not said else "Promises broken: " + " ".join(said)
    return Finding(NAME, "Sparsity degree", [table], [promise],
                   [("steps a second over alpha", "alpha (log)", "steps a second", lines)])


def alpha_of(profile) -> float:
    """Return the part of all rows that a worker touches, mean over the profile, embedding and softmax together."""
    touched = [len(profile.ids(number)) for row in profile.entries for entry in row
               for name, number in entry.gradients.items() if name != "softmax_bias"]
    return float(np.mean(touched)) / VOCABULARY


def _over(seconds, architecture) -> str:
    return f"{seconds[architecture] / seconds['hybrid']:.2f}" if {architecture, "hybrid"} <= seconds.keys() else "-"


def _broken(length, seconds) -> list[str]:
    """Return what hybrid and auto fail to keep at a length."""
    better = min((a for a in ("allreduce", "optimised ps") if a in seconds), key=seconds.get, default="hybrid")
    pairs = [("hybrid", better), ("auto", "hybrid")]
    return [f"length {length}: {slow} takes {seconds[slow]:.3f} s, {fast} {seconds[fast]:.3f} s."
            for slow, fast in pairs
            if {slow, fast} <= seconds.keys() and seconds[slow] > seconds[fast] * (1 + TOLERANCE)]
