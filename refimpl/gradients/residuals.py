"""Dense gradients that travel by microbatch, or of which only some elements do. What is left out is added to the next
step's.
"""

import numpy as np

from kernels import RowGradient
from refimpl.gradients.accumulate import RowTree
from refimpl.gradients.codecs import Codec
from refimpl.gradients.tree import Node, TreeSum


class ElementTree(RowTree):
    """A ``RowTree`` of dense variables, of which each element is a row. Local.

    codec: picks what is sent.  leaves: this rank's microbatches.  step() -> the number of the step at hand.
    left_out: (variable, microbatch) -> float32 of the variable's shape, what no step has sent; of a codec that keeps
    more arrays (``Codec.kept``), so many of these.  units: V.
    """

    def __init__(self, variables, codec: Codec, leaves, step=lambda: 0, units: int = 1):
        super().__init__((), np)
        self.trees, self.picks = {v.name: TreeSum(self.codec.merge_rows) for v in variables}, codec
        self.left_out = {(v.name, leaf): np.zeros(codec.shape_kept(v.shape), v.dtype)
                         for v in variables for leaf in leaves}
        self.step, self.units = step, units

    def push(self, leaf, gradients):
        picks = self.picks.at(self.step(), self.units)
        for name, tree in self.trees.items():
            kept = self.left_out[name, leaf].reshape(picks.kept, -1)
            gradient = np.zeros_like(kept[0]) if gradients is None else np.asarray(gradients[name]).reshape(-1)
            values = picks.add(kept, gradient)
            if np.isfinite(values).all():
                places = picks.places(values, gradient)
                sent = picks.sent(values[places])
                picks.drop(kept, places, sent)
            else:  # kept back, it would never be seen; sent, it ends the training
                places = np.flatnonzero(~np.isfinite(values))
                sent = values[places]
                kept[:, places] = 0
            tree.push(Node(0, leaf), RowGradient(places, sent.reshape(-1, 1)))


class MessageTree:
    """Dense gradients of this rank's microbatches, each encoded by itself and kept as it is. Local.

    codec: packs them.  leaves: of this rank.  key(name, leaf): of a microbatch's random numbers.
    left_out: as an ``ElementTree``'s; empty for a codec without feedback.
    """

    def __init__(self, variables, codec: Codec, leaves, key):
        self.variables, self.codec, self.key = list(variables), codec, key
        self.left_out = {(v.name, leaf): np.zeros(v.shape, np.float32) for v in variables for leaf in leaves
                         if codec.feedback}
        self.size = sum(codec.message_bytes(v.size) for v in variables)
        self.messages: dict[int, np.ndarray] = {}

    def push(self, leaf, gradients):
        """Encode a microbatch's gradients (name -> array); None for a microbatch without examples: zeros."""
        packed = self.messages[leaf] = np.empty(self.size, np.uint8)
        for v, message in zip(self.variables, self.cut(packed)):
            values = self.left_out.get((v.name, leaf), np.float32(0))
            values = values + (np.zeros(v.shape, np.float32) if gradients is None else gradients[v.name])
            self.codec.pack(values.reshape(-1), self.key(v.name, leaf), message)
            if self.codec.feedback:
                sent = self.codec.unpack(message, v.size).reshape(v.shape)
                np.subtract(values, sent, out=self.left_out[v.name, leaf])

    def cut(self, packed):
        """Return views of the messages of each variable. packed: (size,) uint8, those of a microbatch."""
        ends = np.cumsum([self.codec.message_bytes(v.size) for v in self.variables])
        return np.split(packed, ends[:-1])

    def decode(self, packed) -> list:
        """Return the gradient of each variable, flat. packed: those of a microbatch."""
        return [self.codec.unpack(message, v.size) for v, message in zip(self.variables, self.cut(packed))]

    def take(self) -> dict[int, np.ndarray]:
        """Return leaf -> its packed messages, and reset."""
        messages, self.messages = self.messages, {}
        return messages

    def held(self) -> list:
        """Return no arrays: a message is its own."""
        return []


class WaitingTree:
    """Dense gradients of this rank's microbatches, added to what these have left out, until all ranks encode. Local.

    leaves: of this rank.  left_out: as an ``ElementTree``'s; who takes the leaves leaves in it what is left out then.
    """

    def __init__(self, variables, leaves):
        self.left_out = {(v.name, leaf): np.zeros(v.shape, np.float32) for v in variables for leaf in leaves}
        self.variables, self.waiting = list(variables), []

    def push(self, leaf, gradients):
        """Add a microbatch's gradients (name -> array); None for a microbatch without examples: zeros."""
        for v in self.variables if gradients is not None else ():
            self.left_out[v.name, leaf] += gradients[v.name]
        self.waiting.append(leaf)

    def take(self) -> list[int]:
        """Return the pushed leaves, and reset."""
        leaves, self.waiting = self.waiting, []
        return leaves

    def held(self) -> list:
        """Return no arrays: what is left out stays."""
        return []
