"""The crossing: four machines at 200 Mbit/s, a net whose communication dominates, and the batch at which meshes swap.

Bytes of a rank are linear in its B examples, so two meshes send as much at one B; there, the formula says, the quicker
one changes. Measured is where the lines through the seconds of each mesh intersect, fitted to the batches near it.
"""

import statistics
from fractions import Fraction
from itertools import combinations

import numpy as np

from refimpl.experiments.bench.job import BYTES_A_SECOND, RATE, measure
from refimpl.experiments.cells.finding import Finding, Table
from refimpl.experiments.mesh.nets import make_net
from refimpl.plan.layers.crossing import crossing_of_splitbrain
from refimpl.plan.layers.sent import bytes_sent

MACHINES = 4
MESHES = {"4x1": 1, "2x2": 2, "1x4": 4}
NET = {"kind": "perceptron", "inputs": 16384, "widths": (128,), "outputs": 1, "blocks": 4}
"""Wide and thin: to send it takes long, to compute it does not; batches at the crossing are small."""
BATCHES, QUICK = (8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80), (12, 24, 40, 80)
SLOW = 44  # examples of a rank from which on 1x4 is not run: it is far behind
NEAR = (0.5, 1.6)  # times the formula's batch: the points that a line is fitted to
PART = 0.1


def study(quick: bool = False) -> Finding:
    """Sweep the batch on every mesh; return seconds, winners and crossings. quick: fewer batches and steps. Local."""
    cells = [(mesh, batch) for batch in (QUICK if quick else BATCHES) for mesh in MESHES
             if mesh != "1x4" or batch < SLOW]
    found = measure("refimpl.experiments.mesh.ranks:time_steps", {"rounds": 2 if quick else 6, "cells": {
        f"{mesh} {batch}": {"net": NET, "mesh": mesh, "microbatches": MACHINES, "size": batch} for mesh, batch in cells}},
        1, MACHINES, 480)
    seconds = {cell: min(found["seconds"]["{} {}".format(*cell)]) for cell in cells}
    return finding(make_net(NET).layers, seconds, found["sent"])


def finding(layers, seconds: dict, sent: dict) -> Finding:
    """Return the tables. seconds: (mesh, batch) -> of a step.  sent: "mesh batch" -> bytes of rank 0. Local."""
    pairs = [(a, b, formula_crossing(layers, a, b), measured_crossing(layers, seconds, a, b))
             for a, b in combinations(MESHES, 2)]
    off = {(a, b): abs(float(measured / formula) - 1) for a, b, formula, measured in pairs}
    whole = max(part for (a, _), part in off.items() if MESHES[a] == 1)
    wrong = [batch for batch in sorted({batch for _, batch in seconds})
             if winner(seconds, batch) != by_formula(layers, seconds, batch)]
    edges = [batch for batch in wrong if not any(abs(batch / float(f) - 1) <= PART for *_, f, _ in pairs)]
    cut = [layer for layer in layers if layer.blocks > 1]
    return Finding("crossing", "The crossing: which mesh is quicker at which batch", [
        _swept(layers, seconds), _crossings(layers, pairs)], [
        f"{MACHINES} machines of one rank, {RATE}; connected layers "
        + ", ".join(f"{layer.inputs} x {layer.outputs}" for layer in cut) + "; a microbatch a rank. "
        "Seconds are the least of steps in turns, of the slowest rank: what else this machine does only "
        "adds to them.",
        f"Measured crossings from data-parallel to cut layers, SplitBrain's condition, are within {whole:.1%} of the "
        f"formula's (wanted: {PART:.0%}), all within {max(off.values()):.1%}. "
        + ("The quicker mesh is the formula's at every batch that was run." if not wrong else
           f"The quicker mesh is not the formula's at B = {', '.join(map(str, wrong))}"
           + ("." if edges else f", which {'lies' if len(wrong) == 1 else 'lie'} within {PART:.0%} of a crossing.")),
        f"Rank 0's ledger shows the formula's bytes, rounded up to whole ones and beside the numbers of "
        f"examples and norms: largest difference {_most_beside(layers, sent):,.0f} bytes.",
        _beyond_line(layers, seconds)])


def formula_crossing(layers, one: str, other: str) -> Fraction:
    """Return the examples of a rank at which two meshes send as much. Local."""
    def line(mesh):
        empty, single = (_sent(layers, mesh, batch) for batch in (0, 1))
        return empty, single - empty

    (fixed, each), (fixed_other, each_other) = line(one), line(other)
    return (fixed - fixed_other) / (each_other - each)


def measured_crossing(layers, seconds: dict, one: str, other: str) -> float:
    """Return where the lines through two meshes' seconds near the formula's crossing intersect. Local."""
    formula = float(formula_crossing(layers, one, other))
    lines = []
    for mesh in (one, other):
        points = [(batch, took) for (name, batch), took in seconds.items()
                  if name == mesh and NEAR[0] <= batch / formula <= NEAR[1]]
        lines.append(np.polyfit(*zip(*points), 1))
    (slope, fixed), (slope_other, fixed_other) = lines
    return (fixed - fixed_other) / (slope_other - slope)


def winner(seconds: dict, batch: int) -> str:
    """Return the quickest mesh at a batch. Local."""
    return min((mesh for mesh in MESHES if (mesh, batch) in seconds), key=lambda mesh: seconds[mesh, batch])


def by_formula(layers, seconds: dict, batch: int) -> str:
    """Return the mesh that sends least at a batch, among those that were run. Local."""
    return min((mesh for mesh in MESHES if (mesh, batch) in seconds), key=lambda mesh: _sent(layers, mesh, batch))


def _sent(layers, mesh, batch) -> Fraction:
    return bytes_sent(layers, MACHINES // MESHES[mesh], MESHES[mesh], batch).total


def _swept(layers, seconds) -> Table:
    rows = []
    for batch in sorted({batch for _, batch in seconds}):
        took = [f"{1e3 * seconds[mesh, batch]:.0f} ({1e3 * float(_sent(layers, mesh, batch)) / BYTES_A_SECOND:.0f})"
                if (mesh, batch) in seconds else "" for mesh in MESHES]
        rows.append([str(batch), *took, winner(seconds, batch), by_formula(layers, seconds, batch)])
    return Table("ms of a step (of which the formula's bytes at the cards' rate)",
                 ["examples a rank", *MESHES, "quicker", "by the formula"], rows)


def _crossings(layers, pairs) -> Table:
    rows = []
    for one, other, formula, measured in pairs:
        splitbrain = float(crossing_of_splitbrain(layers, MESHES[other])) if MESHES[one] == 1 else None
        rows.append([f"{one} and {other}", f"{float(formula):.1f}", f"{measured:.1f}",
                     f"{measured / float(formula) - 1:+.1%}", f"{splitbrain:.1f}" if splitbrain else ""])
    return Table("Examples of a rank at which two meshes are as quick",
                 ["mesh", "formula", "measured", "difference", "SplitBrain: P / (K (D + sum F))"], rows)


def _most_beside(layers, sent) -> float:
    return max(abs(count - float(_sent(layers, mesh, int(batch))))
               for (mesh, batch), count in ((name.split(), count) for name, count in sent.items()))


def _beyond_line(layers, seconds) -> str:
    beyond = {mesh: statistics.median(took / (float(_sent(layers, mesh, batch)) / BYTES_A_SECOND)
                                      for (name, batch), took in seconds.items() if name == mesh) for mesh in MESHES}
    return "A step takes, beside its bytes at the cards' rate, in the median: " + ", ".join(
        f"{mesh} {ratio:.2f} x" for mesh, ratio in beyond.items()) + "."
