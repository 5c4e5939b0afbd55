"""The exact bytes that a node sends of a layer, if exchanges are bandwidth-optimal.

There are G groups of M = N / G neighbours. A group cuts the layer into M shards and computes MB / G examples. Each
shard is data-parallel over the G nodes that keep it.

    activations   2 (1 − 1/M) · size · ifm · in² · MB / G      gathered forwards, reduce-scattered backwards
    weights       2 (1 − 1/G) · size · ifm · ofm · k² · G / N  reduce-scattered, gathered

G = N (M = 1) is data-parallel, G = 1 (M = N) model-parallel. If a division has a remainder, it is the mean over nodes.
Source: docs/paper.md, Data and model parallelism.
"""

from fractions import Fraction
from typing import NamedTuple

from models.layer import Layer


class Volume(NamedTuple):
    """Bytes that a node sends in a step. It receives equally many."""

    activations: Fraction
    weights: Fraction

    @property
    def total(self) -> Fraction:
        """The sum of both."""
        return self.activations + self.weights


def ring_volume(layer: Layer, ranks: int, batch: int, groups: int, size: int = 4) -> Volume:
    """Return the bytes that a node sends of a layer in G groups; G must divide N. batch: MB, of all nodes. Local."""
    if groups < 1 or ranks % groups:
        raise ValueError(f"{layer.name}: {ranks} ranks cannot be {groups} groups of one size: give a divisor of "
                         f"{ranks}: {', '.join(map(str, divisors(ranks)))}")
    members = ranks // groups
    return Volume(2 * (1 - Fraction(1, members)) * size * layer.activations_in * batch / groups,
                  2 * (1 - Fraction(1, groups)) * size * layer.weights * groups / ranks)


def exact_best_groups(layer: Layer, ranks: int, batch: int, choices=None, size: int = 4) -> int:
    """Return the G with the least exact volume; of equal ones the largest, because data-parallel is simpler. Local.

    choices: the possible G; None: every divisor of N.
    """
    return min(choices or divisors(ranks), key=lambda groups: (ring_volume(layer, ranks, batch, groups, size).total,
                                                               -groups))


def divisors(number: int) -> list[int]:
    """Return the divisors of a number, rising. Local."""
    small = [i for i in range(1, int(number**0.5) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})
