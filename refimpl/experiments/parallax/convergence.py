"""Experiment 4: held-out perplexity over time and over steps, with real computation. Over steps all curves are one."""

from models.registry import workloads_for
from refimpl.experiments.cells.cell import ARCHITECTURES, Cell
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.parallax.context import Context, plotted

NAME = "convergence"
RATE = "50mbit"


def cells_of(context: Context) -> list[Cell]:
    """Return a cell for each architecture, always with real computation."""
    machines, steps, every = (2, 10, 5) if context.quick else (4, 60, 10)
    learner, *_ = workloads_for(NAME)
    return [Cell(NAME, learner, architecture, machines, 2, RATE, "real", steps=steps, warm=0, evaluate_every=every)
            for architecture in ARCHITECTURES]


def study(context: Context) -> Finding:
    """Run the cells; return perplexities, and whether every architecture has the same at every step."""
    cells = cells_of(context)
    found = context.summaries(cells)
    curves = {s.cell.contender: s.result["curve"] for s in found}
    steps = [str(point["step"]) for point in next(iter(curves.values()), [])]
    rows = [[architecture, *(f"{p['perplexity']:.2f}" for p in curve), f"{curve[-1]['seconds']:.1f}",
             s.result["parameters"][:12]] for s, (architecture, curve) in zip(found, curves.items())]
    table = Table(f"Held-out perplexity after so many steps, {cells[0].machines} x 2 ranks, {RATE}, real computation",
                  ["architecture", *steps, "seconds", "parameters"], rows)
    pictures = {f"{NAME}-{axis}": plotted({
        name: [(p[axis], p["perplexity"]) for p in curve] for name, curve in curves.items()}, axis,
        "held-out perplexity") for axis in ("step", "seconds")}
    return Finding("Convergence", [table], [verdict(found)], pictures)


def verdict(found) -> str:
    """Return whether losses, perplexities and final parameters are the same bits under every architecture."""
    answers = {(s.result["parameters"], tuple(s.result["losses"]), tuple(p["perplexity"] for p in s.result["curve"]))
               for s in found}
    if len(answers) == 1:
        return (f"Over steps the {len(found)} architectures are one: the same losses, perplexities and parameters, to "
                "the bit. Over time they differ by what a step takes.")
    return f"THE ANSWERS DIFFER: {len(answers)} different ones under {len(found)} architectures."
