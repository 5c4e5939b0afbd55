"""Equals ``plain.encoding.level_codecs.TernGrad`` with its ``residuals``: -m, 0 or m for each element. n / 4 + 4 bytes.

    v = g + e, cut at 2.5 standard deviations       m = max |v|       send m sgn(v) with probability |v| / m, else 0

Without the cut the expectation would be v. With it, m and the variance are smaller. The residual e is v less what was
sent.
"""

from dataclasses import dataclass

import numpy as np

from kernels import levels
from refimpl.gradients.codecs.levels import Levels

CLIP = 2.5
"""Standard deviations beyond which elements are cut."""


@dataclass(frozen=True)
class TernGrad(Levels):
    """e belongs to (variable, microbatch)."""

    name, feedback, bits, effort = "terngrad", True, 2, 3.0

    def encode_levels(self, values, key, packed):
        most = np.float32(CLIP * values.std(dtype=np.float64)) if len(values) else np.float32(0)
        return levels.three_levels(values, most, key, packed)

    def table(self, scales):
        return np.array([0, 1, -1, 0], np.float32) * scales[0]  # if m is NaN, so are all values: the error shows
