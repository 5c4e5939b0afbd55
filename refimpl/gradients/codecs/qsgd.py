"""Equals ``plain.encoding.level_codecs.QSGD``: a sign and one of s levels each. n (1 + bits of s) / 8 + 4 bytes.

    ‖g‖ sgn(g) l / s       l or l + 1, the two levels next to |g| s / ‖g‖, at random       expectation g; no residual
"""

from dataclasses import dataclass

import numpy as np

from kernels import levels
from refimpl.gradients.codecs.levels import Levels

MOST_LEVELS = 127
"""A level and its sign have at most 8 bits."""
CACHED = 2**16
"""Squares that are added at a time. So many fit into the processor's second-level cache."""


@dataclass(frozen=True)
class QSGD(Levels):
    """s: the levels above 0."""

    name, form, effort = "qsgd", "qsgd:LEVELS", 2.6

    s: int = 7

    @classmethod
    def of(cls, parameter):
        return cls(cls.whole(parameter, MOST_LEVELS, f"1 to {MOST_LEVELS} levels, e.g. qsgd:7"))

    @property
    def bits(self):
        """The bits of an element: sign and level."""
        return 1 + self.s.bit_length()

    def encode_levels(self, values, key, packed):
        norm = np.float32(np.sqrt(sum_of_squares(values)))
        levels.quantise(values, self.s, norm, key, packed)
        return norm

    def table(self, scales):
        possible = np.arange(1 << self.bits)
        whole = np.where(possible & 1, -(possible >> 1), possible >> 1).astype(np.float32)
        return whole * (scales[0] / np.float32(self.s))


def sum_of_squares(values):
    """Return np.sum(values**2) in float64, to the bit, for (n,) float32. It cuts as NumPy does, and needs less memory.
    """
    if len(values) <= CACHED:
        return np.sum(np.square(values, dtype=np.float64))
    half = len(values) // 2 // 8 * 8
    return sum_of_squares(values[:half]) + sum_of_squares(values[half:])
