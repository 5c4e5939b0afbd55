"""``--mesh auto``: the K with the fewest predicted seconds of a step, among those that the ranks and the data allow.

    seconds = max over machines of bytes / rate, of the card or of memory
              + latency of the messages of each round + computation, which is the same for every K

K neighbours form a group, so if possible a group is on one machine. A sum over ranks on m machines sends 2 (m − 1) / m
of its bytes through each machine's card, as with a hierarchical schedule. With one rank on each machine these are the
volumes of sent.py. Overlap is left out. Source: docs/paper.md, Data and model parallelism.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from refimpl.collectives.simulation.network import Network
from refimpl.plan.layers.sent import Sent, bytes_sent, cut_by, held_and_whole, resident, widths_out
from refimpl.plan.layers.volumes import divisors
from refimpl.plan.mesh import Mesh, nearest


@dataclass(frozen=True)
class Predicted:
    """A mesh of DATA x MODEL ranks. sent: bytes that a rank sends.  seconds: predicted for a step.

    card: bytes that leave the busiest machine; on one machine, bytes between its ranks.
    resident: parameters that a rank keeps.  refusal: what must change so that the data fit; "" if they fit.
    """

    data: int
    model: int
    sent: Sent
    card: float
    seconds: float
    resident: Fraction
    refusal: str = ""

    @property
    def name(self) -> str:
        """Its name for --mesh."""
        return f"{self.data}x{self.model}"


def meshes(layers, network: Network, batch: int, microbatches: int, size: int = 4, computation=0.0) -> list[Predicted]:
    """Return the mesh of each K that divides N and the column blocks S of a layer, K = 1 first. Local.

    batch: examples of all ranks, in V microbatches.  size: bytes of an element.  computation: seconds of a step.
    """
    layers, ranks = list(layers), network.ranks
    found = []
    for model in divisors(ranks):
        if model > 1 and not cut_by(layers, model):
            continue
        share = Fraction(batch, ranks)
        out, within = _moved(layers, network, model, share, size)
        seconds = float(max((out / network.bandwidth_out).max(), (out / network.bandwidth_in).max(),
                            (within / network.memory_bandwidth).max()))
        found.append(Predicted(ranks // model, model, bytes_sent(layers, ranks // model, model, share, size),
                          float(out.max() if len(network.machines) > 1 else within.max()),
                          seconds + _waiting(layers, network, model, microbatches) + computation,
                          resident(layers, model), _refusal(ranks, model, microbatches)))
    return found


def choose_mesh(found: list[Predicted]) -> Predicted:
    """Return the mesh with the fewest predicted seconds that fits the microbatches; of equals the smallest K. Local."""
    return min((mesh for mesh in found if not mesh.refusal), key=lambda mesh: (mesh.seconds, mesh.model))


def _refusal(ranks, model, microbatches) -> str:
    """Return what a mesh needs if ranks cannot have equally many microbatches, else ""."""
    if model == 1 or microbatches % ranks == 0:
        return ""
    return f"needs --microbatches {' or '.join(map(str, nearest(microbatches, ranks)))}, a multiple of N = {ranks}"


def _moved(layers, network, model, share, size):
    """Return (out, within), (M,) each: bytes that leave each machine's card, and bytes between its ranks."""
    ranks, cut = network.ranks, cut_by(layers, model)
    held, whole = (float(count * size) for count in held_and_whole(layers, model))
    features = sum(layer.inputs for layer in cut) + Fraction(sum(widths_out(layers, model)), model)
    pair = float(2 * share * size * features)  # bytes from one member to another
    groups = _counts(network, np.arange(ranks) // model)
    out, within = pair * (groups * (model - groups)).sum(0), pair * (groups * np.maximum(groups - 1, 0)).sum(0)
    for nbytes, sets in ((held, np.arange(ranks) % model), (whole, np.zeros(ranks, int))):
        counts = _counts(network, sets)
        machines = (counts > 0).sum(1, keepdims=True)
        out = out + (2 * nbytes * (machines - 1) / machines * (counts > 0)).sum(0)
        within = within + (2 * nbytes * np.maximum(counts - 1, 0)).sum(0)
    return out, within


def _counts(network, sets):
    """Return the number of ranks of each set on each machine: (sets, M). sets: (N,), the set of each rank."""
    found = np.zeros((sets.max() + 1, len(network.machines)), np.int64)
    for machine, ranks in enumerate(network.machines):
        np.add.at(found[:, machine], sets[list(ranks)], 1)
    return found


def _waiting(layers, network, model, microbatches) -> float:
    """Return the seconds of latency: of every round's exchanges in both directions, and of sums by halving-doubling."""
    def latency(sets):
        crosses = bool(((_counts(network, sets) > 0).sum(1) > 1).any())
        return network.latency if crosses else network.latency_within

    numbers, cut = np.arange(network.ranks), cut_by(layers, model)
    rounds = 2 * Mesh(network.ranks // model, model).rounds(microbatches) * (len(cut) + len(widths_out(layers, model)))
    seconds = rounds * (latency(numbers // model) + 2 * (model - 1) * network.overhead)
    for sets, exists in ((numbers % model, bool(cut)), (0 * numbers, len(cut) < len(layers))):
        steps = 2 * int(np.bincount(sets).max() - 1).bit_length() if exists else 0
        seconds += steps * (latency(sets) + 2 * network.overhead)
    return seconds
