"""A variable: a named trainable array. Its initial values depend on its name and the seed, never on the rank."""

import math
from dataclasses import dataclass, field

import numpy as np

from kernels.random import key_of, uniform

STATISTIC_RATE = 0.1
"""How far a statistic moves towards each step's estimate of it: value += STATISTIC_RATE * (estimate - value)."""


@dataclass(frozen=True)
class Constant:
    """Every element starts at ``value``."""

    value: float = 0.0

    def elements(self, key, start, count):
        """Return ``count`` elements from element ``start`` on: (count,) float64. Local."""
        return np.full(count, self.value)


@dataclass(frozen=True)
class Uniform:
    """Element i starts at limit * (2u_i - 1), u uniform in [0, 1)."""

    limit: float

    def elements(self, key, start, count):
        """Return ``count`` elements from element ``start`` on, of random sequence ``key``: (count,) float64. Local."""
        return self.limit * (2.0 * uniform(key, count, start) - 1.0)


@dataclass(frozen=True)
class Variable:
    """A named trainable array.

    sparse:    its gradient touches some rows only and arrives as a RowGradient; its shape is (rows, columns).
    statistic: not trained. Its "gradient" is this step's estimate of it (a microbatch's share, so that the shares
               add up over the microbatches), and it moves towards it: value += STATISTIC_RATE * (estimate - value).
    decays:    weight decay applies.
    clipped:   it counts in the global norm, and is scaled with it.
    """

    name: str
    shape: tuple[int, ...]
    sparse: bool = False
    initial: Constant | Uniform = field(default_factory=Constant)
    dtype: str = "float32"
    decays: bool = True
    clipped: bool = True
    statistic: bool = False

    def __post_init__(self):
        if self.sparse and len(self.shape) != 2:
            raise ValueError(f"sparse variable {self.name!r} has shape {self.shape}: give it two axes (rows, columns)")

    @property
    def size(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of one copy."""
        return self.size * np.dtype(self.dtype).itemsize

    def initial_rows(self, seed: int, start: int = 0, stop: int | None = None, stride: int = 1):
        """Return rows start, start + stride, ... below stop (axis 0) of the initial value, whoever asks. Local."""
        count = self.shape[0] if self.shape else 1
        ids = range(count)[start:stop:stride]
        width = self.size // count if count else 0
        key = key_of(seed, "initial", self.name)
        values = np.empty((len(ids), width), self.dtype)
        block = max(1, 2**20 // max(1, width * stride))  # rows at a time: skipped rows are made too, then left out
        for lo in range(0, len(ids), block):
            some = ids[lo:lo + block]
            rows = some[-1] + 1 - some[0]
            elements = self.initial.elements(key, some[0] * width, rows * width)
            values[lo:lo + block] = elements.reshape(rows, width)[::stride]
        return values.reshape(len(ids), *self.shape[1:]) if self.shape else values.reshape(())

    def initial_value(self, seed: int):
        """Return the whole initial value: shape ``shape``, dtype ``dtype``. Local."""
        return self.initial_rows(seed)
