"""The base class of codecs that pick elements. Equals ``plain.sparse_codecs.SparseCodec`` with ``plain.residuals``.

    leaf     v = g + e       send some elements, 8 bytes each       e = v less what was sent
    node     the union of the places; where both have one, the sum

e belongs to (variable, microbatch), never to a rank. A message grows from node to node, so no allreduce can carry it:
gradients travel as rows of one element do, by the strategy "elements".
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.codec import Codec

MOST_ELEMENTS = 2**31 - 1  # places travel as int32


@dataclass(frozen=True)
class Picked(Codec):
    """``places`` says which elements are sent, and ``sent`` with which values."""

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
        """Add g to what a microbatch keeps; return v. kept: (``kept``, n) float32, changed; v is a view of it."""
        kept[0] += gradient
        return kept[0]

    def drop(self, kept, places, sent):
        """Take what was sent out of what a microbatch keeps, in place."""
        kept[0, places] -= sent

    def places(self, values, gradient):
        """Return the places to send, sorted int64. values, gradient: v and g, (n,) float32."""
        raise NotImplementedError

    def sent(self, values):
        """Return what is sent of the picked elements ``values``: a new array."""
        return values.copy()

    @staticmethod
    def number(text: str) -> float:
        """Return a parameter's number, NaN for what is none."""
        try:
            return float(text)
        except ValueError:
            return np.nan
