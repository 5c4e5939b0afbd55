"""Add up a rank's microbatch gradients in the order of the tree: dense ones in arenas, row gradients merged."""

from dataclasses import replace
from typing import Callable

import numpy as np

from kernels import RowGradient, array_module
from refimpl.gradients.arena import Arena, Layout
from refimpl.gradients.codecs import IDENTITY, Codec, codec_of
from refimpl.gradients.tree import Node, TreeSum


class DenseTree:
    """Sums of dense gradients of consecutive microbatches, one arena for each node. Arenas are reused. Local.

    An even leaf is copied into an arena. An odd leaf is added to the arena of its sibling, without a copy.

    layout, codec: of the sums, which are messages.
    homes: first leaf of a node -> the arena in which this node must be computed.
    """

    def __init__(self, layout: Layout, xp, homes: dict[int, Arena] | None = None, codec: Codec = codec_of(IDENTITY)):
        self.layout, self.xp, self.homes, self.codec = layout, xp, homes or {}, codec
        self.free: list[Arena] = []
        self.tree = TreeSum(self._join)

    def push(self, leaf: int, gradients):
        """Add a microbatch's gradients (name -> array). None adds zeros, for a microbatch without examples."""
        node, gradients = Node(0, leaf), gradients or {}
        parts = self.tree.parts
        if parts and parts[-1][0].is_left_sibling_of(node):
            _, left = parts.pop()
            self.tree.push(node.parent, self._add_leaf(left, gradients))
        else:
            arena = self.homes.get(leaf) or self.arena()
            self.tree.push(node, arena.fill(gradients))

    def _add_leaf(self, left: Arena, gradients) -> Arena:
        for name, view in left.views.items():
            if name not in gradients:
                self.codec.merge(view, self.xp.zeros_like(view))
        return left.add({name: gradients[name] for name in left.views if name in gradients})

    def _join(self, left: Arena, right: Arena) -> Arena:
        left.add(right)
        self.free.append(right)
        return left

    def formed(self) -> dict[Node, dict]:
        """Return node -> name -> a copy of its sum, for the nodes that ``take`` would return now."""
        return {node: {name: view.copy() for name, view in arena.views.items()} for node, arena in self.tree.parts}

    def put(self, node: Node, sums):
        """Add a node from ``formed``. Its first leaf must follow the last pushed leaf. sums: name -> array."""
        self.tree.push(node, (self.homes.get(node.first_leaf) or self.arena()).fill(sums))

    def arena(self) -> Arena:
        """Return an arena to write to. It may have old contents."""
        return self.free.pop() if self.free else Arena(self.layout, self.xp, codec=self.codec)

    def take(self) -> list[tuple[Node, Arena]]:
        """Return the nodes that cover the pushed leaves, and reset. After use ``give_back`` their arenas."""
        parts, self.tree.parts = self.tree.parts, []
        return parts

    def decode(self, name: str, message, out=None):
        """Return the decoded message of a variable, or of a part of one. out: see ``Codec.decode``."""
        return self.codec.decode(message, out)

    def give_back(self, arenas):
        """Reuse these arenas in the next step."""
        self.free.extend(arenas)


class ScaledTree(DenseTree):
    """A ``DenseTree`` whose codec needs max |g| over all microbatches (``Codec.scaled``). Local.

    Leaves are kept until all ranks have agreed on this common scale.
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


class RowTree:
    """Sums of row gradients of consecutive microbatches, for several sparse variables, encoded. Local."""

    def __init__(self, variables, xp, codec: Codec = codec_of(IDENTITY)):
        self.codec, self.trees = codec, {v.name: TreeSum(codec.merge_rows) for v in variables}
        self.empty = {v.name: RowGradient(np.empty(0, np.int64), xp.empty((0, v.shape[1]), v.dtype)) for v in variables}

    def push(self, leaf: int, gradients: dict[str, RowGradient] | None):
        """Add a microbatch's row gradients (name -> RowGradient). None adds no rows, for one without examples."""
        gradients = gradients or self.empty
        for name, tree in self.trees.items():
            ids, rows = gradients[name].ids, gradients[name].rows
            # a model may return views; messages must be contiguous
            ids, rows = (array_module(array).ascontiguousarray(array) for array in (ids, rows))
            tree.push(Node(0, leaf), RowGradient(ids, self.codec.encode(rows)))

    def formed(self) -> dict[Node, dict]:
        """Return node -> name -> its row gradient, for the nodes that ``take`` would return now."""
        found: dict = {}
        for name, tree in self.trees.items():
            for node, gradient in tree.parts:
                found.setdefault(node, {})[name] = gradient
        return found

    def put(self, node: Node, sums: dict[str, RowGradient]):
        """Add a node from ``formed``. Its first leaf must follow the last pushed leaf."""
        for name, tree in self.trees.items():
            tree.push(node, sums[name])

    def held(self) -> list:
        """Return the row gradients that ``take`` would return now."""
        return [gradient for tree in self.trees.values() for _, gradient in tree.parts]

    def take(self) -> dict[str, list[tuple[Node, RowGradient]]]:
        """Return name -> the nodes that cover the pushed leaves, and reset."""
        parts = {name: tree.parts for name, tree in self.trees.items()}
        for tree in self.trees.values():
            tree.parts = []
        return parts
