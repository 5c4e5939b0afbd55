"""Random initial values of tables that no rank holds whole."""

import math
from dataclasses import dataclass

import numpy as np

from kernels.random import uniform


@dataclass(frozen=True)
class Normal:
    """Element i starts at deviation * sqrt(-2 log(1 - u_2i)) cos(2 pi u_2i+1), u uniform in [0, 1) (Box, Muller 1958).

    zeros: (first, end) of elements that start at 0: a padding row.
    """

    deviation: float = 1.0
    zeros: tuple[int, int] = (0, 0)

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1`` of random sequence ``key``: (count,) float64. Local."""
        radius, angle = np.ascontiguousarray(uniform(key, 2 * count, 2 * start).reshape(count, 2).T)
        values = self.deviation * np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * math.pi * angle)
        first, end = (min(max(place - start, 0), count) for place in self.zeros)
        values[first:end] = 0
        return values
