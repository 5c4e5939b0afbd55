"""Dense gradients of which only some elements are sent, as row gradients. The rest is added to the next step's."""

import numpy as np

from kernels import RowGradient
from refimpl.gradients.accumulate import RowTree
from refimpl.gradients.codecs import Codec
from refimpl.gradients.tree import Node, TreeSum


class ElementTree(RowTree):
    """A ``RowTree`` of dense variables, of which each element is a row. Local.

    codec: picks what is sent.  leaves: this rank's microbatches.
    left_out: (variable, microbatch) -> float32 of the variable's shape, what no step has sent.
    """

    def __init__(self, variables, codec: Codec, leaves):
        super().__init__((), np)
        self.trees, self.picks = {v.name: TreeSum(self.codec.merge_rows) for v in variables}, codec
        self.left_out = {(v.name, leaf): np.zeros(v.shape, v.dtype) for v in variables for leaf in leaves}

    def push(self, leaf, gradients):
        for name, tree in self.trees.items():
            values = self.left_out[name, leaf]
            if gradients is not None:
                values += gradients[name]
            values = values.reshape(-1)
            places = self.picks.places(values)
            rows = values[places].reshape(-1, 1)
            values[places] = 0
            tree.push(Node(0, leaf), RowGradient(places, rows))
