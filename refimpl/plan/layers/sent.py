"""The exact bytes that a rank of a DATA x MODEL mesh sends in a step; s bytes an element, biases included.

K = MODEL neighbours form a group; there are G = DATA groups and N = G K ranks; a rank has B examples in a step. The
fully connected layers whose column blocks K divides are cut into K shards. All other layers are data-parallel.

    into a cut layer of D inputs             2 (K − 1) · B · D · s      rows of a data-parallel layer's output, or
                                                                        columns of a cut layer's; forwards and backwards
    out of the last cut layer, F outputs     2 (K − 1)/K · B · F · s    each member's rows with all columns, both ways
    a cut layer of P parameters              2 (G − 1)/G · P/K · s
    a data-parallel layer of P parameters    2 (N − 1)/N · P · s
"""

from fractions import Fraction
from typing import NamedTuple

from models.layer import Layer


class Sent(NamedTuple):
    """Bytes that a rank sends in a step. into, out_of: both directions."""

    into: Fraction
    out_of: Fraction
    shards: Fraction
    replicas: Fraction

    @property
    def total(self) -> Fraction:
        """The sum of all."""
        return sum(self, Fraction(0))


def parameters(layer: Layer) -> int:
    """Return the number of elements in a layer's weight and bias. Local."""
    return layer.weights + layer.outputs


def cut_by(layers, model: int) -> list[Layer]:
    """Return the layers that are cut over K ranks: fully connected, with column blocks that K divides. Local."""
    return [layer for layer in layers if model > 1 and layer.connected and layer.blocks % model == 0]


def held_and_whole(layers, model: int) -> tuple[Fraction, int]:
    """Return (parameters of cut layers on a rank, parameters of the layers that each rank keeps whole). Local."""
    cut = sum(map(parameters, cut_by(layers, model)))
    return Fraction(cut, model), sum(map(parameters, layers)) - cut


def widths_out(layers, model: int) -> list[int]:
    """Return the outputs of each cut layer that no cut layer follows: there each member gets its own rows. Local."""
    cut = {layer.name for layer in cut_by(layers, model)}
    following = [*layers[1:], None]
    return [layer.outputs for layer, after in zip(layers, following)
            if layer.name in cut and (after is None or after.name not in cut)]


def bytes_sent(layers, data: int, model: int, examples: int, size: int = 4) -> Sent:
    """Return the bytes that a rank sends on a mesh with G = data and K = model. examples: B, of a rank. Local."""
    layers, ranks, cut = list(layers), data * model, cut_by(layers, model)
    held, whole = held_and_whole(layers, model)
    return Sent(Fraction(2 * (model - 1) * examples * size * sum(layer.inputs for layer in cut)),
                2 * Fraction(model - 1, model) * examples * size * sum(widths_out(layers, model)),
                2 * Fraction(data - 1, data) * held * size,
                2 * Fraction(ranks - 1, ranks) * whole * size)


def resident(layers, model: int) -> Fraction:
    """Return the number of parameters on a rank: 1 / K of each cut layer, and all of the others. Local."""
    return sum(held_and_whole(list(layers), model))
