"""Equals ``plain.encoding.level_codecs.OneBit`` with its ``residuals``: a sign for each element. n / 8 + 8 bytes.

    v = g + e       send v >= 0, and two means: of all v below 0, of all others       e = v less what was sent
"""

from dataclasses import dataclass

from kernels.levels import encode_signs
from refimpl.gradients.codecs.levels import Levels


@dataclass(frozen=True)
class OneBit(Levels):
    """Each element becomes the mean of all that have its sign; e belongs to (variable, microbatch)."""

    name, feedback, scales, effort = "onebit", True, 2, 1.6

    def encode_levels(self, values, key, packed):
        return encode_signs(values, packed)

    def table(self, scales):
        return scales
