"""The gain of packed trees on each allocation of a machine: rates, and a training's step with simulated exchanges.

    broadcast    trees: the smallest cut from the best root      rings: 2 R, as R rings fit, each both ways
    allreduce    trees: the packing's rate                       rings: 2 R N / (2 (N - 1))

If R = 0, NCCL uses PCIe, as one ring with the rate of PCIE. Rates count NVLinks.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, groupby, permutations, product
from statistics import geometric_mean

import numpy as np
from scipy.optimize import LinearConstraint, milp

from models.registry import entry_of
from refimpl.collectives.algorithms.halves import one_node_each
from refimpl.collectives.links import Links, Packing, named_links, pack_canonical, pack_trees
from refimpl.collectives.links.flow import Capacities
from refimpl.collectives.links.optimum import whole_rates
from refimpl.collectives.links.schedule import tree_schedule
from refimpl.collectives.simulation.places import GraphNetwork
from refimpl.collectives.simulation.simulate import simulate
from refimpl.experiments.cells.proportions import PAPER
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.trees import MACHINES
from refimpl.pictures.lines import Line, plot_lines
from refimpl.plan.layers.sent import parameters

PCIE = 10e9
"""Bytes/s of a ring over PCIe 3.0 x16."""
LATENCY, REDUCTION, EFFICIENCY, IMAGES = 2e-6, 200e9, 0.6, 64
SEGMENTS = 32
QUICK = range(3, 6)
"""GPUs of an allocation with --quick."""
VGG_16 = entry_of("vgg").model((224, 224, 3), 1000, **entry_of("vgg").presets["vgg16"]).layers
MODELS = {"ResNet-50": (PAPER["cnn"].dense, PAPER["cnn"].flop),
          "VGG-16": (sum(map(parameters, VGG_16)), 6.0 * sum(layer.products for layer in VGG_16))}
"""Model -> (elements, FLOP of an image, forward and backward)."""
ASSUMED = (
    "Assumed: an NVLink carries 20 GB/s one way on a DGX-1P and 25 on a DGX-1V, a ring over PCIe 10 GB/s; a GPU "
    "reaches 60 % of its peak in float32 and has 64 images a step; a message takes 2 us, sums 200 GB/s; nothing "
    "overlaps.",
    "Exchanges over trees are simulated, in 32 segments; rings have the time of their formula, which favours them.",
)


def allocations(name: str, sizes=range(3, 9)) -> list[Links]:
    """Return the connected allocations of these numbers of GPUs; only one of those that differ only in names. Local."""
    whole, found = named_links(name), {}
    for size in sizes:
        for chosen in combinations(range(whole.ranks), size):
            try:
                links = whole.only(list(chosen))
            except ValueError:
                continue
            found.setdefault(_shape(links), links)
    return list(found.values())


def _shape(links):
    table = [[int(links.rates.get((a, b), 0)) for b in range(links.ranks)] for a in range(links.ranks)]
    order = sorted(range(links.ranks), key=lambda a: sorted(table[a]))
    groups = [list(group) for _, group in groupby(order, key=lambda a: sorted(table[a]))]
    orders = ([rank for group in groups for rank in group] for groups in product(*map(permutations, groups)))
    return max(tuple(table[a][b] for a in order for b in order) for order in orders)


def most_rings(links: Links) -> int:
    """Return how many rings of rate 1 fit into the links at once, each in both directions. Local."""
    rings = [(0, *rest) for rest in permutations(range(1, links.ranks)) if rest[0] < rest[-1]
             and all(pair in links.rates for pair in zip((0, *rest), (*rest, 0)))]
    if not rings:
        return 0
    pairs = [(a, b) for a, b in links.rates if a < b]
    used = np.array([[any({a, b} == {*pair} for pair in zip(ring, (*ring[1:], 0))) for ring in rings]
                     for a, b in pairs], float)
    found = milp(np.full(len(rings), -1.0), integrality=np.ones(len(rings)),
                 constraints=LinearConstraint(used, ub=[float(links.rates[pair]) for pair in pairs]))
    return round(-found.fun)


def broadcast_rate(links: Links) -> int:
    """Return the rate of trees packed from the best root: its smallest cut to any rank. Local."""
    rates, _ = whole_rates(links)  # counts of NVLinks are whole already
    network, ranks = Capacities(links.ranks, rates), range(links.ranks)
    return max(min(network.flow(root, rank) for rank in ranks if rank != root) for root in ranks)


@dataclass(frozen=True)
class Allocation:
    """The rates of an allocation in NVLinks. pcie: PCIe's.  canonical: of trees in the microbatch tree's order."""

    packing: Packing
    pcie: float
    rings: int
    broadcast: int
    canonical: Fraction

    def gains(self) -> tuple[float, float]:
        """Return the rate of trees divided by that of rings, for broadcast and allreduce."""
        return self.broadcast / self.of_rings(), float(self.packing.rate) / self.of_rings(True)

    def of_rings(self, allreduce: bool = False) -> float:
        """Return the rate of the best rings, or of PCIe."""
        n = self.packing.links.ranks
        return (2 * self.rings or self.pcie) * (n / (2 * (n - 1)) if allreduce else 1)


def find(links: Links, pcie: float) -> Allocation:
    """Return all rates of an allocation. Local."""
    return Allocation(pack_trees(links), pcie, most_rings(links), broadcast_rate(links),
                      pack_canonical(links, one_node_each(links.ranks)).rate)


def study(name: str, quick: bool) -> Finding:
    """Study every allocation of one of MACHINES. Local."""
    _, unit, flops = MACHINES[name]
    found = [find(links, PCIE / unit) for links in (allocations(name, QUICK) if quick else allocations(name))]
    steps = {model: [_step(one, *work, unit, flops) for one in found] for model, work in MODELS.items()}
    gains = [one.gains() for one in found]
    table = Table("Rates in NVLinks, and the part of a step that trees save", [
        "GPUs", "rings", "broadcast: trees", "of rings", "allreduce: trees", "of rings", "canonical",
        *(f"{model}, less time" for model in MODELS)], [
        [one.packing.links.name.removeprefix(f"{name}:"), str(one.rings or "PCIe"), str(one.broadcast),
         f"{one.of_rings():.3g}", str(one.packing.rate), f"{one.of_rings(True):.3g}", str(one.canonical),
         *(f"{1 - steps[model][i][0] / steps[model][i][1]:.1%}" for model in MODELS)] for i, one in enumerate(found)])
    summary = Table("Trees over rings", ["size", "least", "geometric mean", "most", "Blink's abstract"], [
        [what, f"{min(ratios):.2f}", f"{geometric_mean(ratios):.2f}", f"{max(ratios):.2f}", claim]
        for (what, claim), ratios in zip((("broadcast", "up to 8"), ("allreduce", "up to 8")), zip(*gains))])
    saved = {model: max(1 - trees / rings for trees, rings in both) for model, both in steps.items()}
    lines = [Line(what, range(1, len(found) + 1), sorted(ratios), style)
             for style, (what, ratios) in enumerate(zip(("broadcast", "allreduce"), zip(*gains)))]
    picture = plot_lines(lines, "allocations, sorted", "rate of trees / rate of the best rings",
                         f"How much faster trees are than rings on the allocations of a {name.upper()}", log="y")
    return Finding(f"{len(found)} allocations of a {name.upper()}", [summary, table], [
        f"No ring goes through {sum(not one.rings for one in found)} of the allocations.",
        f"End to end, trees save up to {', '.join(f'{most:.0%} ({model})' for model, most in saved.items())}; Blink's "
        "abstract says up to 40 %.",
        f"On {sum(one.canonical == one.packing.rate for one in found)} of them the order of the microbatch tree costs "
        f"nothing; on the others up to {max(1 - float(one.canonical / one.packing.rate) for one in found):.1%} of the "
        "rate.",
        *ASSUMED], pictures={name: picture})


def _step(one: Allocation, elements, flop, unit, flops) -> tuple[float, float]:
    """Return the seconds of a step with trees, and with rings."""
    computing = IMAGES * flop / (EFFICIENCY * flops)
    schedule = tree_schedule(one.packing)
    trees = simulate(schedule, GraphNetwork(one.packing.links, unit, LATENCY, REDUCTION), elements, 4, SEGMENTS).seconds
    return computing + trees, computing + 4 * elements / (one.of_rings(True) * unit)
