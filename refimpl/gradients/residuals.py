"""Trees of dense gradients whose codec encodes each microbatch by itself, or leaves something for the next step."""

import numpy as np

from kernels import RowGradient
from refimpl.gradients.accumulate import RowTree
from refimpl.gradients.codecs import Codec
from refimpl.gradients.tree import Node, TreeSum


class ElementTree(RowTree):
    """A ``RowTree`` of dense variables. Each element is a row. Local.

    codec: picks what is sent.  leaves: this rank's microbatches.  step() -> the number of the current step.
    left_out: (variable, microbatch) -> the residual, float32 of the variable's shape. A codec may keep several arrays
    of this shape (``Codec.kept``).  units: V.
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
            else:  # send what is not finite, so that the training stops; in the residual nobody would see it
                places = np.flatnonzero(~np.isfinite(values))
                sent = values[places]
                kept[:, places] = 0
            tree.push(Node(0, leaf), RowGradient(places, sent.reshape(-1, 1)))


class MessageTree:
    """The messages of this rank's microbatches. Each is encoded by itself; none are added. Local.

    codec: packs them.  leaves: of this rank.  key(name, leaf): of a microbatch's random numbers.
    left_out: as in ``ElementTree``; empty for a codec without feedback.
    """

    def __init__(self, variables, codec: Codec, leaves, key):
        self.variables, self.codec, self.key = list(variables), codec, key
        self.left_out = {(v.name, leaf): np.zeros(v.shape, np.float32) for v in variables for leaf in leaves
                         if codec.feedback}
        self.size = sum(codec.message_bytes(v.size) for v in variables)
        self.messages: dict[int, np.ndarray] = {}

    def push(self, leaf, gradients):
        """Encode a microbatch's gradients (name -> array). None encodes zeros, for a microbatch without examples."""
        packed = self.messages[leaf] = np.empty(self.size, np.uint8)
        for v, message in zip(self.variables, self.cut(packed)):
            values = self.left_out.get((v.name, leaf), np.float32(0))
            values = values + (np.zeros(v.shape, np.float32) if gradients is None else gradients[v.name])
            self.codec.pack(values.reshape(-1), self.key(v.name, leaf), message)
            if self.codec.feedback:
                sent = self.codec.unpack(message, v.size).reshape(v.shape)
                np.subtract(values, sent, out=self.left_out[v.name, leaf])

    def cut(self, packed):
        """Return a view of each variable's message. packed: (size,) uint8, those of a microbatch."""
        ends = np.cumsum([self.codec.message_bytes(v.size) for v in self.variables])
        return np.split(packed, ends[:-1])

    def decode(self, packed) -> list:
        """Return the gradient of each variable, flat. packed: those of a microbatch."""
        return [self.codec.unpack(message, v.size) for v, message in zip(self.variables, self.cut(packed))]

    def take(self) -> dict[int, np.ndarray]:
        """Return leaf -> its packed messages, and reset."""
        messages, self.messages = self.messages, {}
        return messages


class WaitingTree:
    """Dense gradients of this rank's microbatches, kept until all ranks encode together. Local.

    leaves: of this rank.  left_out: as in ``ElementTree``. ``push`` adds gradients to it. After ``take``, the caller
    subtracts from it what is sent.
    """

    def __init__(self, variables, leaves):
        self.left_out = {(v.name, leaf): np.zeros(v.shape, np.float32) for v in variables for leaf in leaves}
        self.variables, self.waiting = list(variables), []

    def push(self, leaf, gradients):
        """Add a microbatch's gradients (name -> array). None adds nothing, for a microbatch without examples."""
        for v in self.variables if gradients is not None else ():
            self.left_out[v.name, leaf] += gradients[v.name]
        self.waiting.append(leaf)

    def take(self) -> list[int]:
        """Return the pushed leaves, and reset."""
        leaves, self.waiting = self.waiting, []
        return leaves
