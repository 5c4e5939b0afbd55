"""Trees over real TCP: emulated machines with a cable for each link of an allocation, shaped both ways."""

import numpy as np

from refimpl.collectives import make_schedule
from refimpl.collectives.algorithms.halves import one_node_each
from refimpl.collectives.choose import CANONICAL_TREES, TREES
from refimpl.collectives.links import Packing, pack_canonical, pack_trees
from refimpl.experiments.bench.allreduce.schedules import time_schedules
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.cluster import cables_of, parse_rate
from refimpl.experiments.cluster.description import FASTEST
from refimpl.experiments.job import measure
from refimpl.experiments.trees import MACHINES
from refimpl.experiments.trees.study import allocations, most_rings

UNIT = "50mbit"
ELEMENTS, TURNS = 1 << 22, 3


def study(quick: bool) -> Finding:
    """Sum 16 MiB over the trees of each allocation that has no ring. Local; launches the ranks.

    quick: those of 3 GPUs.
    """
    without = [links for name in MACHINES for links in allocations(name, (3,) if quick else range(3, 9))
               if not most_rings(links)]
    rows, parts = [], []
    for links in without:
        wanted = {"network": links.name, "elements": ELEMENTS}
        found = measure(f"{__name__}:main", wanted, 1, links.ranks, 300, FASTEST, cables_of(links, UNIT))
        best = best_seconds(pack_trees(links)), best_seconds(pack_canonical(links, one_node_each(links.ranks)))
        parts.append([least / seconds for least, seconds in zip(best, found.values())])
        rows.append([links.name, *(cell for least, seconds in zip(best, found.values())
                                   for cell in (f"{least:.2f}", f"{seconds:.2f}", f"{least / seconds:.3f}"))])
    table = Table(f"16 MiB over machines wired as an allocation, {UNIT} an NVLink: seconds, predicted and measured",
                  ["network", "predicted", "trees", "part", "predicted", "canonical", "part"], rows)
    return Finding("Over real TCP", [table], [
        f"{what} reach {min(some):.3f} to {max(some):.3f} of their own best rate, median {np.median(some):.3f}; "
        "headers count as lost." for what, some in zip(("Trees", "Canonical trees"), zip(*parts))])


def best_seconds(packing: Packing) -> float:
    """Return the fewest seconds that a schedule of this kind can need. Local."""
    return 4 * ELEMENTS / (float(packing.best) * parse_rate(UNIT) / 8)


def main(comm, network: str, elements: int) -> dict[str, float]:
    """Time both kinds of trees; return name -> median seconds. Collective."""
    schedules = [make_schedule(kind + network, comm.size, comm.size) for kind in (TREES, CANONICAL_TREES)]
    times = time_schedules(comm, schedules, elements, TURNS)
    return {name: float(np.median(took)) for name, took in times.items()}
