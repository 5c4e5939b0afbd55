"""Initial values of a module's variables: the module's values, or random ones for tables that no rank holds."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from kernels.random import uniform


@dataclass(frozen=True)
class ModuleValues:
    """The values of a module's tensor at the beginning of a training.

    constants: the first digits of the SHA-256 of the module's frozen parameters and buffers. Ranks compare the
    descriptions of initial values, and so detect modules that differ in parts that are not trained.
    """

    constants: str
    tensor: torch.Tensor = field(repr=False, compare=False)

    def elements(self, key, start, count):
        """Return elements ``start`` to ``start + count - 1``: (count,). Local."""
        return self.tensor.detach().reshape(-1)[start:start + count].cpu().numpy()


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
