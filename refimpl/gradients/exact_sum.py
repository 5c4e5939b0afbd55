"""A sum that no order can change: float64 numbers added exactly, rounded once at the end.

Every finite float64 is an integer times 2**-1074. The accumulator is a row of int64 digits of 32 bits each (a
"superaccumulator", Kulisch): adding numbers, and adding accumulators of other ranks, is integer addition, which is
associative. So a norm for clipping is the same bits wherever the rows lie.
"""

from fractions import Fraction

import numpy as np

DIGIT = 32
DIGITS = 67  # 2098 bits of float64's range, a carry's room, and the top two digits catch the split of the last one
LOWEST = -1074
ROOM = 2**30  # numbers that one accumulator may take before a digit could overflow


class ExactSum:
    """Exact sum of float64 numbers. ``digits``: (67,) int64; adding the digits of two sums adds the sums. Local."""

    def __init__(self, digits=None):
        self.digits = np.zeros(DIGITS, np.int64) if digits is None else digits

    def add(self, values):
        """Add float64 values, any shape, at most 2**30 in all. Raises ValueError if one is not finite."""
        values = np.asarray(values, np.float64).ravel()
        values = values[values != 0]
        if not np.isfinite(values).all():
            raise ValueError("an exact sum takes finite numbers only")
        if values.size >= ROOM:
            raise ValueError(f"an exact sum takes fewer than {ROOM} numbers, not {values.size}")
        mantissa, exponent = np.frexp(values)
        whole = np.ldexp(mantissa, 53).astype(np.int64)  # value == whole * 2**(exponent - 53), exactly
        shift = exponent.astype(np.int64) - 53 - LOWEST
        whole = np.where(shift < 0, whole >> np.maximum(-shift, 0), whole)  # denormals: the bits shifted out are 0
        place, bit = np.divmod(np.maximum(shift, 0), DIGIT)
        sign, whole = np.sign(whole), np.abs(whole)
        # bit < 32 and whole < 2**53: cut the number where it crosses digits, so that nothing overflows 64 bits
        low = (whole & ((1 << DIGIT) - 1)) << bit
        high = (whole >> DIGIT) << bit
        for offset, part in ((0, low), (1, high)):
            np.add.at(self.digits, place + offset, sign * (part & ((1 << DIGIT) - 1)))
            np.add.at(self.digits, place + offset + 1, sign * (part >> DIGIT))
        return self

    def fraction(self) -> Fraction:
        """Return the sum as an exact rational number."""
        total = sum(int(d) << (DIGIT * i) for i, d in enumerate(self.digits))
        return Fraction(total) * Fraction(2) ** LOWEST

    def value(self) -> float:
        """Return the sum rounded once to float64 (to nearest even)."""
        return float(self.fraction())
