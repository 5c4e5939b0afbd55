"""A sum that no order can change: float64 numbers added exactly, rounded once at the end.

Every finite float64 is an integer times 2**-1074. The accumulator is a row of int64 digits of 32 bits each (a
"superaccumulator", Kulisch): adding numbers, and adding accumulators of other ranks, is integer addition, which is
associative. So a norm for clipping is the same bits wherever the rows lie.
"""

from fractions import Fraction

import numpy as np

from kernels import array_module, to_numpy

DIGIT = 32
DIGITS = 67  # 2098 bits of float64's range, a carry's room, and the top two digits catch the split of the last one
LOWEST = -1074
ROOM = 2**30  # numbers that one accumulator may take before a digit could overflow


class ExactSum:
    """Exact sum of float64 numbers. ``digits``: (67,) int64; adding the digits of two sums adds the sums. Local."""

    def __init__(self, digits=None):
        self.digits = np.zeros(DIGITS, np.int64) if digits is None else digits

    def add(self, values):
        """Add float64 values, any shape, at most 2**30 in all. Raises ValueError if one is not finite.

        Values on a device are added up there: what comes to the host is one row of digits.
        """
        xp = array_module(values)
        values = xp.asarray(values, dtype=np.float64).ravel()
        if xp is np:
            values = values[values != 0]
        if values.size >= ROOM:
            raise ValueError(f"an exact sum takes fewer than {ROOM} numbers, not {values.size}")
        if not bool(xp.isfinite(values).all()):
            raise ValueError("an exact sum takes finite numbers only")
        self.digits += to_numpy(digits_of(values))
        return self

    def fraction(self) -> Fraction:
        """Return the sum as an exact rational number."""
        total = sum(int(d) << (DIGIT * i) for i, d in enumerate(self.digits))
        return Fraction(total) * Fraction(2) ** LOWEST

    def value(self) -> float:
        """Return the sum rounded once to float64 (to nearest even)."""
        return float(self.fraction())


def digits_of(values):
    """Return the digits of the exact sum of finite float64 values: (n,) -> (67,) int64, on their device. Local."""
    xp = array_module(values)
    mantissa, exponent = xp.frexp(values)
    whole = (mantissa * 2.0**53).astype(np.int64)  # value == whole * 2**(exponent - 53), exactly
    shift = exponent.astype(np.int64) - 53 - LOWEST
    whole = xp.where(shift < 0, whole >> xp.maximum(-shift, 0), whole)  # denormals: the bits shifted out are 0
    shift = xp.maximum(shift, 0)
    place, bit = shift // DIGIT, shift % DIGIT
    sign, whole = xp.sign(whole), xp.abs(whole)
    # bit < 32 and whole < 2**53: cut the number where it crosses digits, so that nothing overflows 64 bits
    low = (whole & ((1 << DIGIT) - 1)) << bit
    high = (whole >> DIGIT) << bit
    digits = xp.zeros(DIGITS, np.uint64)  # modulo 2**64, as int64 is: a device adds atomically what has no sign
    for offset, part in ((0, low), (1, high)):
        xp.add.at(digits, place + offset, (sign * (part & ((1 << DIGIT) - 1))).view(np.uint64))
        xp.add.at(digits, place + offset + 1, (sign * (part >> DIGIT)).view(np.uint64))
    return digits.view(np.int64)
