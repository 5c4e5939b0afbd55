"""Check the replay: step times of real computation and of its replay, on 2 and on 4 ranks."""

from models.registry import workloads_for
from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.parallax.context import Context
from refimpl.words import counted

NAME = "replay-check"
RATE = "100mbit"
HEAVY, *_ = workloads_for(NAME)


def cells_of(context: Context) -> list[Cell]:
    """Return pairs of cells, real and replayed, on 2 machines of 1 and of 2 ranks."""
    context.profile(HEAVY, 4)
    return [Cell(NAME, HEAVY, architecture, 2, each, RATE, compute, steps=4 if context.quick else 8, warm=2)
            for each in (1, 2) for architecture in ("hybrid", "allreduce", "naive ps")
            for compute in ("real", "replay")]


def study(context: Context) -> Finding:
    """Run the cells; return real and replayed seconds of a step side by side."""
    cells = cells_of(context)
    found = {(s.cell.ranks, s.cell.contender, s.cell.compute): s for s in context.summaries(cells)}
    alone = context.profile(HEAVY, 4).mean_seconds
    rows, differences = [], {}
    for ranks, architecture in dict.fromkeys((c.ranks, c.contender) for c in cells):
        real, replay = (found.get((ranks, architecture, compute)) for compute in ("real", "replay"))
        if real is None or replay is None:
            continue
        difference = replay.seconds / real.seconds - 1
        differences.setdefault(ranks, []).append(difference)
        rows.append([str(ranks), architecture, f"{real.seconds:.3f}", f"{replay.seconds:.3f}",
                     f"{100 * difference:+.1f} %", f"{100 * real.busy:.0f} %", f"{100 * replay.busy:.0f} %"])
    table = Table(f"Seconds of a step, 2 machines, {RATE}; a microbatch alone computes for {1e3 * alone:.0f} ms",
                  ["ranks", "architecture", "real", "replayed", "difference", "cores busy, real", "replayed"], rows)
    said = [f"{ranks} ranks: a replayed step differs by {100 * min(some):+.1f} to {100 * max(some):+.1f} % from a real."
            for ranks, some in differences.items()]
    said.append(f"This machine has {counted(context.cores, 'core')} for Python to see: "
                "ranks that compute at once share them, replayed ones do not.")
    return Finding("Replay against real computation", [table], said)
