"""Equals ``plain.level_codecs.QSGD``: s levels of the norm and a sign for each element. n (1 + bits of s) / 8 + 4
bytes.

    ‖g‖ sgn(g) l / s       l or l + 1, the two levels next to |g| s / ‖g‖, at random       expectation g; no residual
"""

from dataclasses import dataclass

import numpy as np

from kernels.random import uniform
from refimpl.gradients.codecs.levels import Levels

MOST_LEVELS = 127
"""With the sign a level has 8 bits at most."""


@dataclass(frozen=True)
class QSGD(Levels):
    """s: the levels above 0."""

    name, form = "qsgd", "qsgd:LEVELS"

    s: int = 7

    @classmethod
    def of(cls, parameter):
        return cls(cls.whole(parameter, MOST_LEVELS, f"1 to {MOST_LEVELS} levels, e.g. qsgd:7"))

    @property
    def bits(self):
        """Of an element: sign and level."""
        return 1 + self.s.bit_length()

    def levels(self, values, key):
        wide = values.astype(np.float64)
        norm = np.float32(np.sqrt(np.sum(wide ** 2)))
        exact = np.abs(wide) * self.s / norm if norm else np.zeros(len(wide))
        levels = np.minimum(np.floor(exact + uniform(key, len(wide))).astype(np.int64), self.s)
        return (2 * levels + (values < 0)).astype(np.uint8), [norm]

    def table(self, scales):
        possible = np.arange(1 << self.bits)
        whole = np.where(possible & 1, -(possible >> 1), possible >> 1).astype(np.float32)
        return whole * (scales[0] / np.float32(self.s))
