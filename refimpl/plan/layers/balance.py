"""The balance equations of Das et al. (arXiv 1602.06709): what a layer computes, what it sends, and the ratio of both.

N nodes train on MB examples in a step. An element has ``size`` bytes. The exact volumes are in volumes.py. Source:
docs/paper.md, Data and model parallelism.
"""

import math
from fractions import Fraction

from models.layer import Layer

PASSES = 3
"""Forward, gradient of the weights, gradient of the inputs: each needs equally many products."""


def flop(layer: Layer, examples: int | Fraction) -> int | Fraction:
    """Return the operations of a layer in a step: 3 · 2 · examples · ifm · ofm · kw · kh · out². Local."""
    return PASSES * 2 * examples * layer.products


def intensity(layer: Layer, examples: int | Fraction, size: int = 4) -> Fraction:
    """Return FLOP/byte of a data-parallel layer that sends and receives at once: 6 · examples · out² / size. Local.

    examples: MB_node. With float32 it is 1.5 · MB_node · out²; it does not depend on the numbers of feature maps.
    """
    return Fraction(flop(layer, examples)) / (size * layer.weights)


def best_groups(layer: Layer, ranks: int, batch: int) -> float:
    """Return G* = √(2 · N · MB · in² / (ofm · k² · 2)), where the volume V(G) is smallest without overlap. Local.

    For a fully connected layer it is √(N · MB / ofm). G* > N means data-parallel, G* < 1 model-parallel.
    """
    pixels = layer.size_in[0] * layer.size_in[1]
    return math.sqrt(2 * ranks * batch * pixels / (layer.outputs * layer.kernel**2 * 2))
