"""A synchronous step as Das et al. schedule it: on one network, exchanges run one after the other, first come first.

    forward    wait for the layer's weights; gather the inputs of its group (G < N); compute
    backward   gradient of the weights; begin its exchange; gradient of the inputs; scatter it (G < N)

Only the layer's next forward pass waits for the exchange of its weights. Activations are waited for at once. Steps are
repeated until one takes as long as the one before. Source: docs/paper.md, Data and model parallelism [recalled].
"""

from dataclasses import dataclass
from fractions import Fraction

from refimpl.plan.layers.balance import PASSES, flop
from refimpl.plan.layers.volumes import exact_best_groups, ring_volume

STEPS = 50  # the most; two suffice, because the next step waits for all exchanges of a step


@dataclass(frozen=True)
class System:
    """A node. flops: peak FLOP/s.  rate: bytes/s of its network card in each direction."""

    name: str
    flops: float
    rate: float

    @property
    def balance(self) -> float:
        """FLOP/byte that a layer needs so that the network keeps up with computation at the peak."""
        return self.flops / self.rate


@dataclass(frozen=True)
class LayerWork:
    """A layer's seconds: each of three passes, each gather of activations, and the exchange of its weights."""

    compute: float
    gather: float
    exchange: float


def work_of(layers, ranks: int, batch: int, system: System, efficiency: float = 1.0) -> list[LayerWork]:
    """Return each layer's work on N nodes: convolutions data-parallel, connected layers with their best exact G. Local.

    efficiency: the fraction of the peak at which nodes compute.
    """
    found = []
    for layer in layers:
        groups = exact_best_groups(layer, ranks, batch) if layer.connected else ranks
        volume = ring_volume(layer, ranks, batch, groups)
        found.append(LayerWork(float(flop(layer, Fraction(batch, ranks))) / PASSES / (efficiency * system.flops),
                               float(volume.activations) / 2 / system.rate, float(volume.weights) / system.rate))
    return found


def step_seconds(works: list[LayerWork]) -> float:
    """Return the seconds of a step, when all steps take equally long. Local."""
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
    """Return the speed of N nodes divided by that of one node on the same batch. Local."""
    return (step_seconds(work_of(layers, 1, batch, system, efficiency))
            / step_seconds(work_of(layers, ranks, batch, system, efficiency)))


def _gather(clock, network, work):
    """Return (clock, when the network is free) after waiting for the exchange of a layer's activations."""
    if not work.gather:
        return clock, network
    done = max(clock, network) + work.gather
    return done, done
