"""Equals ``plain.encoding.sparse_codecs.TopK``: the elements of largest magnitude. 8 k bytes.

    send v at the k largest |v|; of equal ones, the first
"""

import math
from dataclasses import dataclass

from kernels.largest import largest
from refimpl.gradients.codecs.picked import Picked


@dataclass(frozen=True)
class TopK(Picked):
    """ratio: the part of a variable's elements that a microbatch sends, at least one."""

    name, form, effort = "topk", "topk:RATIO", 1.0

    ratio: float = 0.01

    @classmethod
    def of(cls, parameter):
        if not 0 < (ratio := cls.number(parameter)) <= 1:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a ratio above 0 and up to 1, e.g. topk:0.01")
        return cls(ratio)

    def count(self, elements):
        return min(elements, max(1, math.ceil(self.ratio * elements)))

    def places(self, values, gradient):
        return largest(values, self.count(len(values)))
