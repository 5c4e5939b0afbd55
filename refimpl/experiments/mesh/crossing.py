"""The crossing: the batch from which on another mesh is quicker, for a net that mostly communicates at 200 Mbit/s.

Bytes of a rank are linear in its B examples, so two meshes send the same at one B. There the quicker mesh changes, says
the formula. The measured crossing is where two lines intersect, each fitted to a mesh's seconds near the formula's B.
"""

import statistics
from fractions import Fraction
from itertools import combinations

import numpy as np

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.job import BYTES_A_SECOND, RATE, measure
from refimpl.experiments.mesh.nets import make_net
from refimpl.plan.layers.crossing import crossing_of_splitbrain
from refimpl.plan.layers.sent import bytes_sent

MACHINES = 4
MESHES = {"4x1": 1, "2x2": 2, "1x4": 4}
NET = {"kind": "perceptron", "inputs": 16384, "widths": (128,), "outputs": 1, "blocks": 4}
"""Wide and thin: it takes long to send, but not to compute, so batches at the crossing are small."""
BATCHES, QUICK = (8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80), (12, 24, 40, 80)
SLOW = 44  # examples of a rank from which on 1x4 is too slow to be run
NEAR = (0.5, 1.6)  # times the formula's batch: lines are fitted to the points between
PART = 0.1


def study(quick: bool = False) -> Finding:
    """Sweep the batch on every mesh; return seconds, winners and crossings. quick: fewer batches and steps. Local."""
    cells = {(mesh, batch): {"net": NET, "mesh": mesh, "microbatches": MACHINES, "size": batch}
             for batch in (QUICK if quick else BATCHES) for mesh in MESHES if mesh != "1x4" or batch < SLOW}
    found = measure("refimpl.experiments.mesh.ranks:time_steps",
                    {"rounds": 2 if quick else 6, "cells": [*cells.values()]}, 1, MACHINES, 480)
    return finding(make_net(NET).layers, *(dict(zip(cells, some)) for some in zip(*found)))


def finding(layers, seconds: dict, sent: dict) -> Finding:
    """Return the tables. seconds: (mesh, batch) -> of a step.  sent: the same -> bytes of rank 0. Local."""
    pairs = [(a, b, formula_crossing(layers, a, b), measured_crossing(layers, seconds, a, b))
             for a, b in combinations(MESHES, 2)]
    batches = sorted({batch for _, batch in seconds})
    winners = {batch: (quickest(seconds, batch), quickest({cell: _sent(layers, *cell) for cell in seconds}, batch))
               for batch in batches}
    beside = max(abs(count - float(_sent(layers, *cell))) for cell, count in sent.items())
    at_rate = {cell: float(_sent(layers, *cell)) / BYTES_A_SECOND for cell in seconds}
    beyond = {mesh: statistics.median(seconds[cell] / at_rate[cell] for cell in seconds if cell[0] == mesh)
              for mesh in MESHES}
    swept = [[str(batch), *(f"{1e3 * seconds[mesh, batch]:.0f} ({1e3 * at_rate[mesh, batch]:.0f})"
                            if (mesh, batch) in seconds else "" for mesh in MESHES), *winners[batch]]
             for batch in batches]
    return Finding("The crossing: which mesh is quicker at which batch", [
        Table("ms of a step (of which the formula's bytes at the cards' rate)",
              ["examples a rank", *MESHES, "quicker", "by the formula"], swept), _crossings(layers, pairs)], [
        f"{MACHINES} machines of one rank, {RATE}; connected layers "
        + ", ".join(f"{layer.inputs} x {layer.outputs}" for layer in layers if layer.blocks > 1)
        + "; a microbatch a rank. Seconds are the least of steps in turns, of the slowest rank: what else this machine "
        "does only adds to them.", _verdict(pairs, [b for b in batches if len({*winners[b]}) > 1]),
        f"Rank 0's ledger shows the formula's bytes, rounded up to whole ones and beside the numbers of "
        f"examples and norms: largest difference {beside:,.0f} bytes.",
        "A step takes, beside its bytes at the cards' rate, in the median: "
        + ", ".join(f"{mesh} {ratio:.2f} x" for mesh, ratio in beyond.items()) + "."])


def formula_crossing(layers, one: str, other: str) -> Fraction:
    """Return the examples of a rank at which two meshes send the same. Local."""
    (fixed, each), (fixed_other, each_other) = (
        (_sent(layers, mesh, 0), _sent(layers, mesh, 1) - _sent(layers, mesh, 0)) for mesh in (one, other))
    return (fixed - fixed_other) / (each_other - each)


def measured_crossing(layers, seconds: dict, one: str, other: str) -> float:
    """Return where two lines intersect, each fitted to a mesh's seconds near the formula's crossing. Local."""
    formula = float(formula_crossing(layers, one, other))
    near = {cell: took for cell, took in seconds.items() if NEAR[0] <= cell[1] / formula <= NEAR[1]}
    (slope, fixed), (slope_other, fixed_other) = (
        np.polyfit(*zip(*((batch, took) for (name, batch), took in near.items() if name == mesh)), 1)
        for mesh in (one, other))
    return (fixed - fixed_other) / (slope_other - slope)


def quickest(cost: dict, batch: int) -> str:
    """Return the mesh that costs least at a batch, among those that were run. cost: (mesh, batch) -> number. Local."""
    return min((mesh for mesh in MESHES if (mesh, batch) in cost), key=lambda mesh: cost[mesh, batch])


def _sent(layers, mesh, batch) -> Fraction:
    return bytes_sent(layers, MACHINES // MESHES[mesh], MESHES[mesh], batch).total


def _verdict(pairs, wrong) -> str:
    """Return how near the measured crossings are. wrong: batches where the formula names another mesh."""
    off = {(a, b): abs(float(measured / formula) - 1) for a, b, formula, measured in pairs}
    whole = max(part for (a, _), part in off.items() if MESHES[a] == 1)
    edges = [batch for batch in wrong if not any(abs(batch / float(f) - 1) <= PART for *_, f, _ in pairs)]
    quicker = "The quicker mesh is the formula's at every batch that was run."
    if wrong:
        quicker = f"The quicker mesh is not the formula's at B = {', '.join(map(str, wrong))}" + (
            "." if edges else f", which {'lies' if len(wrong) == 1 else 'lie'} within {PART:.0%} of a crossing.")
    return ("Measured crossings from data-parallel to cut layers, SplitBrain's condition, are within "
            f"{whole:.1%} of the formula's (wanted: {PART:.0%}), all within {max(off.values()):.1%}. {quicker}")


def _crossings(layers, pairs) -> Table:
    rows = []
    for one, other, formula, measured in pairs:
        splitbrain = f"{float(crossing_of_splitbrain(layers, MESHES[other])):.1f}" if MESHES[one] == 1 else ""
        rows.append([f"{one} and {other}", f"{float(formula):.1f}", f"{measured:.1f}",
                     f"{measured / float(formula) - 1:+.1%}", splitbrain])
    return Table("Examples of a rank at which two meshes are as quick",
                 ["mesh", "formula", "measured", "difference", "SplitBrain: P / (K (D + sum F))"], rows)
