"""Data-, model- or hybrid-parallel: each layer gets the number of groups G with the least exact volume.

A fully connected layer of S column blocks can be cut over M ranks if M divides S. A convolution is not cut here (nor by
SplitBrain), so it is data-parallel. The reason says if cutting it would send less.
"""

from dataclasses import dataclass
from fractions import Fraction

from models.layer import Layer
from refimpl.plan.layers.balance import best_groups, flop, intensity
from refimpl.plan.layers.volumes import divisors, exact_best_groups, ring_volume
from refimpl.words import counted


@dataclass(frozen=True)
class LayerChoice:
    """A layer on N ranks: its operations, the bytes that a rank sends in each mode in a step, and the chosen mode.

    flop: of a rank in a step.  intensity: FLOP/byte if data-parallel.
    whole, cut, hybrid: bytes with G = N, with G = 1, and with the best G between (None: N has no divisor between).
    star: G* of Das et al.  exact: the best G if every divisor of N were possible.  groups: the chosen G.
    """

    layer: Layer
    flop: Fraction
    intensity: Fraction
    whole: Fraction
    cut: Fraction
    hybrid: Fraction | None
    star: float
    exact: int
    groups: int
    mode: str
    reason: str


def choose_layer(layer: Layer, ranks: int, batch: int, size: int = 4) -> LayerChoice:
    """Return a layer's mode on N ranks. batch: MB, examples of all ranks.  size: bytes of an element. Local."""
    def sent(groups):
        return ring_volume(layer, ranks, batch, groups, size).total

    examples, between = Fraction(batch, ranks), divisors(ranks)[1:-1]
    possible = [g for g in divisors(ranks) if g == ranks or layer.connected and layer.blocks % (ranks // g) == 0]
    exact = exact_best_groups(layer, ranks, batch, size=size)
    groups = exact_best_groups(layer, ranks, batch, possible, size)
    mode = "data" if groups == ranks else "model" if groups == 1 else "hybrid"
    return LayerChoice(layer, Fraction(flop(layer, examples)), intensity(layer, examples, size), sent(ranks), sent(1),
                       min(map(sent, between), default=None), best_groups(layer, ranks, batch), exact, groups,
                       mode, _reason(layer, ranks, groups, exact, sent))


def choose_layers(layers, ranks: int, batch: int, size: int = 4) -> list[LayerChoice]:
    """Return the mode of each layer. Local."""
    return [choose_layer(layer, ranks, batch, size) for layer in layers]


def _reason(layer, ranks, groups, exact, sent) -> str:
    if ranks == 1:
        return "one rank sends nothing"
    told = (f"cut over {ranks // groups} ranks, it sends {float(100 * sent(groups) / sent(ranks)):.3g}% of the bytes "
            "that it sends uncut" if groups < ranks else "")
    if exact == groups:
        return told or "uncut, it sends the fewest bytes" + (
            f": cut over 2 ranks, it would send {float(sent(ranks // 2) / sent(ranks)):.3g} times as many"
            if ranks % 2 == 0 else "")
    why = ("convolutions are not cut here" if not layer.connected
           else f"{counted(layer.blocks, 'column block')} cannot be divided among {ranks // exact} ranks")
    return (f"{told or 'uncut'}. Cut over {ranks // exact} ranks (G = {exact}), it would send "
            f"{float(100 * sent(exact) / sent(ranks)):.3g}%{'' if told else ' of the bytes'}, but {why}")
