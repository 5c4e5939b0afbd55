"""Equals ``plain.sparse_codecs.TopK`` with ``plain.residuals``: the elements of largest magnitude, 8 bytes each.

    leaf     v = g + e       send v at the k largest |v|, first ones if equal           e = v elsewhere, 0 there
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
class TopK(Codec):
    """ratio: the part of a variable's elements that a microbatch sends, at least one."""

    name, feedback, strategy, form = "topk", True, "elements", "topk:RATIO"

    ratio: float = 0.01

    @classmethod
    def of(cls, parameter):
        try:
            ratio = float(parameter)
        except ValueError:
            ratio = math.nan
        if not 0 < ratio <= 1:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a ratio above 0 and up to 1, e.g. topk:0.01")
        return cls(ratio)

    def check(self, variable, microbatches):
        self.check_dense(variable)
        if math.prod(variable.shape) > MOST_ELEMENTS:
            raise ValueError(f"{self.name}: {variable.name!r} has more than {MOST_ELEMENTS} elements; say bf16")

    def count(self, elements: int) -> int:
        """Return k for a variable with this number of elements."""
        return min(elements, max(1, math.ceil(self.ratio * elements)))

    def places(self, values):
        """Return the k places of largest magnitude, sorted int64; among equal ones the first. values: (n,) float32."""
        k, sizes = self.count(len(values)), np.abs(values)
        if k == len(values):
            return np.arange(k)
        least = np.partition(sizes, -k)[-k]
        above, equal = np.flatnonzero(sizes > least), np.flatnonzero(sizes == least)
        return np.sort(np.concatenate([above, equal[:k - len(above)]]))
