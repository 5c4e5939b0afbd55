"""A synchronous step as Das et al. schedule it: on one network, one exchange after the other, first come, first served.

    forwards    wait for the layer's weights; gather what enters its group (G < N); compute
    backwards   gradient of the weights; ask for their exchange, and go on; gradient of the inputs; scatter it (G < N)

The weights' exchange is waited for only before that layer's next forward pass; activations are waited for at once.
Steps repeat until one takes as long as the one before. Source: docs/paper.md, Data and model parallelism [recalled].
"""

from dataclasses import dataclass
from fractions import Fraction

from refimpl.plan.layers.balance import PASSES, flop
from refimpl.plan.layers.volumes import exact_best_groups, ring_volume

STEPS = 50  # two suffice: what is left of a step's exchanges is waited for in the next


@dataclass(frozen=True)
class System:
    """A node. flops: FLOP/s at its peak.  rate: bytes/s of its card, each way."""

    name: str
    flops: float
    rate: float

    @property
    def balance(self) -> float:
        """FLOP/byte: what a layer must have for the network to keep up with peak computation."""
        return self.flops / self.rate


@dataclass(frozen=True)
class LayerWork:
    """A layer's seconds: compute of each of three passes, gather of activations each way, exchange of its weights."""

    compute: float
    gather: float
    exchange: float


def work_of(layers, ranks: int, batch: int, system: System, efficiency: float = 1.0) -> list[LayerWork]:
    """Return each layer's work on N nodes: convolutions data-parallel, connected layers in their exact best G. Local.

    efficiency: the part of peak at which nodes compute.
    """
    found = []
    for layer in layers:
        groups = exact_best_groups(layer, ranks, batch) if layer.connected else ranks
        volume = ring_volume(layer, ranks, batch, groups)
        found.append(LayerWork(float(flop(layer, Fraction(batch, ranks))) / PASSES / (efficiency * system.flops),
                               float(volume.activations) / 2 / system.rate, float(volume.weights) / system.rate))
    return found


def step_seconds(works: list[LayerWork]) -> float:
    """Return how long a step takes once every step takes as long. Local."""
    clock, network, before = 0.0, 0.0, 0.0
    ready = [0.0] * len(works)
    seconds = None
    for _ in range(STEPS):
        for index, work in enumerate(works):
            clock = max(clock, ready[index])
            clock, network = _gather(clock, network, work)
            clock += work.compute
        for index, work in reversed(list(enumerate(works))):
            clock += work.compute
            if work.exchange:
                ready[index] = network = max(clock, network) + work.exchange
            clock, network = _gather(clock + work.compute, network, work)
        if seconds is not None and abs(clock - before - seconds) <= 1e-12 * clock:
            break
        seconds, before = clock - before, clock
    return seconds


def speedup(layers, ranks: int, batch: int, system: System, efficiency: float = 1.0) -> float:
    """Return how many times as fast N nodes are as one on the same batch. Local."""
    return (step_seconds(work_of(layers, 1, batch, system, efficiency))
            / step_seconds(work_of(layers, ranks, batch, system, efficiency)))


def _gather(clock, network, work):
    """Return (clock, when the network is free) after a layer's activations have been exchanged and waited for."""
    if not work.gather:
        return clock, network
    done = max(clock, network) + work.gather
    return done, done
