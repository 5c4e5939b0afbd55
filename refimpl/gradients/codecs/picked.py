"""The base class of codecs that pick elements. Equals ``plain.encoding.sparse_codecs.SparseCodec``, ``residuals``.

    leaf     v = g + e       send some elements, 8 bytes each       e = v less what was sent
    node     the union of the indices; values of an index that both have are added

The residual e belongs to (variable, microbatch), never to a rank. A message grows from node to node, so no allreduce
can carry it. Gradients travel like rows of one element, by the strategy "elements".
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.codec import Codec

MOST_ELEMENTS = 2**31 - 1  # indices travel as int32


@dataclass(frozen=True)
class Picked(Codec):
    """A subclass has two methods: ``places`` picks the elements to send, and ``sent`` gives their values."""

    feedback, strategy = True, "elements"

    def check(self, variable, microbatches):
        self.check_dense(variable)
        if math.prod(variable.shape) > MOST_ELEMENTS:
            raise ValueError(f"{self.name}: {variable.name!r} has more than {MOST_ELEMENTS} elements; say bf16")

    def count(self, elements: int) -> int:
        """Return how many of a variable's elements a microbatch sends at most."""
        return elements

    def at(self, step: int, units: int) -> "Picked":
        """Return the codec of a step, counted from 0. units: V, the microbatches of all ranks."""
        return self

    def add(self, kept, gradient):
        """Add g to what a microbatch keeps; return v, a view of it. kept: (``kept``, n) float32, which changes."""
        kept[0] += gradient
        return kept[0]

    def drop(self, kept, places, sent):
        """Subtract what was sent from what a microbatch keeps, in place."""
        kept[0, places] -= sent

    def places(self, values, gradient):
        """Return the indices of the elements to send, sorted int64. values, gradient: v and g, (n,) float32."""
        raise NotImplementedError

    def sent(self, values):
        """Return what is sent for the picked elements ``values``, as a new array."""
        return values.copy()

    @staticmethod
    def number(text: str) -> float:
        """Return a parameter as a number; NaN if it is not one."""
        try:
            return float(text)
        except ValueError:
            return np.nan
