"""The balance equations of Das et al. (arXiv 1602.06709): what a layer computes, what it sends, and the ratio of both.

N nodes train on MB examples in a step. A node sends ``size`` bytes for an element. overlap (o): the part of what a node
receives that comes while it sends, 0 to 1: with o = 1 both directions of a card count once. Source: docs/paper.md,
Data and model parallelism. The exact volumes are in volumes.py.
"""

import math
from fractions import Fraction

from models.layer import Layer

PASSES = 3
"""Forward, gradient of the weights, gradient of the inputs: each takes as many products."""


def flop(layer: Layer, examples: int | Fraction) -> int | Fraction:
    """Return what a layer computes in a step: 3 · 2 · examples · ifm · ofm · kw · kh · out². FLOP. Local."""
    return PASSES * 2 * examples * layer.products


def weight_bytes(layer: Layer, size: int = 4, overlap=0) -> int | Fraction:
    """Return what a node sends of a data-parallel layer: size · ifm · ofm · kw · kh · (2 − o). Bytes a step. Local."""
    return size * layer.weights * (2 - overlap)


def intensity(layer: Layer, examples: int | Fraction, size: int = 4, overlap=1) -> Fraction:
    """Return FLOP/byte of a data-parallel layer: 6 · examples · out² / (size (2 − o)). Local.

    examples: MB_node. With float32 and o = 1 it is 1.5 · MB_node · out², whatever the numbers of feature maps.
    """
    return Fraction(flop(layer, examples)) / Fraction(weight_bytes(layer, size, overlap))


def approximate_volume(layer: Layer, ranks: int, batch: int, groups, size: int = 4, overlap=0):
    """Return V(G) = 2 · size · ifm · in² · MB / G + size · ifm · ofm · k² · (2 − o) · G / N. Bytes of a node. Local.

    groups: G, each of N / G nodes among which the layer is cut. With o = 0 it is the ring's volume and
    2 · size · (ifm · in² · MB + ifm · ofm · k²) / N more, whatever G: right about the best G, wrong about the bytes,
    most of all at G = 1 and G = N, where it counts exchanges that do not take place.
    """
    return (2 * size * layer.activations_in * batch / _exact(groups)
            + weight_bytes(layer, size, overlap) * _exact(groups) / ranks)


def best_groups(layer: Layer, ranks: int, batch: int, overlap=0) -> float:
    """Return G* = √(2 · N · MB · in² / (ofm · k² · (2 − o))), where V(G) is least. Local.

    Of a fully connected layer with o = 0 it is √(N · MB / ofm). Above N: data-parallel; below 1: model-parallel.
    """
    pixels = layer.size_in[0] * layer.size_in[1]
    return math.sqrt(2 * ranks * batch * pixels / (layer.outputs * layer.kernel**2 * (2 - overlap)))


def _exact(number):
    return Fraction(number) if isinstance(number, int) else number
