"""Dense gradients that are encoded with a common scale. Leaves are kept until all ranks have agreed on the scale."""

from dataclasses import replace
from typing import Callable

import numpy as np

from refimpl.gradients.accumulate import DenseTree
from refimpl.gradients.arena import Arena, Layout
from refimpl.gradients.codecs import Codec
from refimpl.gradients.tree import Node


class ScaledTree(DenseTree):
    """A ``DenseTree`` whose codec needs max |g| over all microbatches (``Codec.scaled``). Local.

    leaves: V.  key(name, leaf): of a microbatch's random numbers.  exponents: name -> k, after ``scale``.
    """

    def __init__(self, layout: Layout, xp, homes, codec: Codec, leaves: int, key: Callable[[str, int], int]):
        super().__init__(layout, xp, homes, codec)
        self.leaves, self.key, self.exponents = leaves, key, {}
        self.given, self.rooms = replace(layout, dtype="float32"), []
        self.waiting: list[tuple[int, Arena]] = []

    def push(self, leaf, gradients):
        room = self.rooms.pop() if self.rooms else Arena(self.given, self.xp)
        self.waiting.append((leaf, room.fill(gradients or {})))

    def formed(self):
        return {Node(0, leaf): gradients.views for leaf, gradients in self.waiting}

    def put(self, node, sums):
        self.push(node.index, sums)

    def largest(self) -> np.ndarray:
        """Return max |g| of each variable over this rank's microbatches: (variables,) float32."""
        found = [max((max(view.max(initial=0), -view.min(initial=0)) for view in (g[name] for _, g in self.waiting)),
                     default=0) for name in self.layout.names]
        return np.array(found, np.float32)

    def scale(self, largest):
        """Encode the kept leaves. largest: the maximum over all ranks."""
        self.exponents = {name: self.codec.exponent(most, self.leaves)
                          for name, most in zip(self.layout.names, largest)}
        for leaf, gradients in self.waiting:
            super().push(leaf, {name: self.codec.quantise(gradients[name], exponent, self.key(name, leaf))
                                for name, exponent in self.exponents.items()})
            self.rooms.append(gradients)
        self.waiting = []

    def decode(self, name, message, out=None):
        out = self.xp.empty(message.shape, np.float32) if out is None else out
        return self.codec.restore(message, self.exponents[name], out)
