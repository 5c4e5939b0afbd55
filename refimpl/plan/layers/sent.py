"""What a rank of a DATA x MODEL mesh sends in a step, exactly, as it is run here; s bytes an element, biases included.

K = MODEL neighbours are a group, G = DATA groups, N = G K ranks; a rank has B examples in a step. Cut into K shards are
the fully connected layers whose column blocks K divides; every other layer is data-parallel over all N.

    into a shard layer of D inputs           (K − 1) · B · D · s        forwards, and as much backwards: rows of what a
                                             data-parallel layer left, columns of what a shard layer left
    out of shard layers, of F outputs        (K − 1)/K · B · F · s      each way: each member's own rows, all columns
    a shard layer of P parameters            2 (G − 1)/G · P/K · s
    a data-parallel layer of P parameters    2 (N − 1)/N · P · s
"""

from fractions import Fraction
from typing import NamedTuple

from models.layer import Layer


class Sent(NamedTuple):
    """Bytes that a rank sends in a step. into, out_of: of both directions."""

    into: Fraction
    out_of: Fraction
    shards: Fraction
    replicas: Fraction

    @property
    def total(self) -> Fraction:
        """All added up."""
        return sum(self, Fraction(0))


def parameters(layer: Layer) -> int:
    """Return the elements of a layer's weight and bias. Local."""
    return layer.weights + layer.outputs


def cut_by(layers, model: int) -> list[Layer]:
    """Return the layers that K ranks share: fully connected, with column blocks that K divides. Local."""
    return [layer for layer in layers if model > 1 and layer.connected and layer.blocks % model == 0]


def held_and_whole(layers, model: int) -> tuple[Fraction, int]:
    """Return (parameters of its shard layers that a rank holds, those of the layers that all hold whole). Local."""
    cut = sum(map(parameters, cut_by(layers, model)))
    return Fraction(cut, model), sum(map(parameters, layers)) - cut


def widths_out(layers, model: int) -> list[int]:
    """Return the outputs of each shard layer after which no shard layer comes: where its columns go home. Local."""
    cut = {layer.name for layer in cut_by(layers, model)}
    following = [*layers[1:], None]
    return [layer.outputs for layer, after in zip(layers, following)
            if layer.name in cut and (after is None or after.name not in cut)]


def bytes_sent(layers, data: int, model: int, examples: int, size: int = 4) -> Sent:
    """Return what a rank sends on a mesh of G = data x K = model ranks. examples: B, of a rank. Local."""
    layers, ranks, cut = list(layers), data * model, cut_by(layers, model)
    held, whole = held_and_whole(layers, model)
    return Sent(Fraction(2 * (model - 1) * examples * size * sum(layer.inputs for layer in cut)),
                2 * Fraction(model - 1, model) * examples * size * sum(widths_out(layers, model)),
                2 * Fraction(data - 1, data) * held * size,
                2 * Fraction(ranks - 1, ranks) * whole * size)


def resident(layers, model: int) -> Fraction:
    """Return the parameters that a rank holds: of a shard layer a K-th. Local."""
    return sum(held_and_whole(list(layers), model))
