"""An exact sum of float64 numbers, rounded once at the end. It does not depend on the order.

Its digits are those of ``kernels.exact_sum``: adding numbers, and adding the digits of other ranks, is integer
addition. So a norm for clipping has the same bits however rows are spread over ranks.
"""

from fractions import Fraction

import numpy as np

from kernels import array_module
from kernels.exact_sum import DIGIT, DIGITS, LOWEST, digits_of

ROOM = 2**30  # numbers that one accumulator may take before a digit could overflow


class ExactSum:
    """Exact sum of float64 numbers. ``digits``: (67,) int64; adding the digits of two sums adds the sums. Local."""

    def __init__(self, digits=None):
        self.digits = np.zeros(DIGITS, np.int64) if digits is None else digits

    def add(self, values):
        """Add float64 values, any shape, at most 2**30 in all. Raises ValueError if one is not finite.

        Values on a device are added up on the device; only one row of digits comes to the host.
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
