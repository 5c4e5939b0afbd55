"""An exact sum of float64 numbers, rounded once at the end. It does not depend on the order.

Numbers become integer digits (``kernels.exact_sum``), and digits of several ranks are added as integers. So a norm for
clipping has the same bits, wherever the rows are.
"""

from fractions import Fraction

import numpy as np

from kernels import array_module
from kernels.exact_sum import DIGIT, DIGITS, LOWEST, digits_of

ROOM = 2**30  # one call takes fewer numbers, so that no digit overflows


class ExactSum:
    """Exact sum of float64 numbers. ``digits``: (67,) int64; adding the digits of two sums adds the sums. Local."""

    def __init__(self, digits=None):
        self.digits = np.zeros(DIGITS, np.int64) if digits is None else digits

    def add(self, values):
        """Add float64 values of any shape. Raises ValueError if one is not finite, or if there are 2**30 or more.

        Values on a device are added up there. Only the digits of their sum come to the host.
        """
        values = array_module(values).asarray(values, dtype=np.float64).ravel()
        if values.size >= ROOM:
            raise ValueError(f"an exact sum takes fewer than {ROOM} numbers, not {values.size}")
        self.digits += digits_of(values)
        return self

    def value(self) -> float:
        """Return the sum rounded once to float64 (to nearest even)."""
        total = sum([d << (DIGIT * i) for i, d in enumerate(self.digits.tolist()) if d])
        return float(Fraction(total) * Fraction(2) ** LOWEST)
