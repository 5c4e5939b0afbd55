"""Where a module's variables start: at the values it has; a table that no rank holds, at random ones made by place."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.random import uniform


@dataclass(frozen=True)
class ModuleValues:
    """The values that a module's tensor has when a training opens, wherever they then lie.

    constants: of the module's frozen parameters and buffers, the first digits of their SHA-256. Ranks compare what a
    variable's initial values say of themselves, and so find here that a module differs in what is not trained.
    """

    constants: str
    tensor: torch.Tensor = field(repr=False, compare=False)

    def elements(self, key, start, count):
        """Return ``count`` elements from element ``start`` on: (count,). Local."""
        return self.tensor.detach().reshape(-1)[start:start + count].cpu().numpy()


@dataclass(frozen=True)
class Normal:
    """Element i starts at deviation * sqrt(-2 log(1 - u_2i)) cos(2 pi u_2i+1), u uniform in [0, 1) (Box, Muller 1958).

    zeros: (first, end) of elements that start at 0 instead: a padding row.
    """

    deviation: float = 1.0
    zeros: tuple[int, int] = (0, 0)

    def elements(self, key, start, count):
        """Return ``count`` elements from element ``start`` on, of random sequence ``key``: (count,) float64. Local."""
        radius, angle = np.ascontiguousarray(uniform(key, 2 * count, 2 * start).reshape(count, 2).T)
        values = self.deviation * np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * math.pi * angle)
        first, end = (min(max(place - start, 0), count) for place in self.zeros)
        values[first:end] = 0
        return values
