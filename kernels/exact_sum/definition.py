"""Plain array code for exact sums: the oracle. Never optimised.

Every finite float64 is an integer times 2**-1074. A sum is a row of int64 digits of 32 bits each (a "superaccumulator",
Kulisch): adding numbers, and adding sums, is integer addition, which is associative.
"""

import numpy as np

DIGIT = 32
DIGITS = 67  # 2098 bits of float64's range, a carry's room, and the top two digits catch the split of the last one
LOWEST = -1074
NOT_FINITE = "an exact sum takes finite numbers only"


def digits_of(values):
    """Return digits with sum of values = sum over i of digits[i] * 2**(32 i - 1074): (n,) float64 -> (67,) int64.

    Raises ValueError if a value is not finite.
    """
    values = values[values != 0]
    if not np.isfinite(values).all():
        raise ValueError(NOT_FINITE)
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)  # value == whole * 2**(exponent - 53), exactly
    shift = exponent.astype(np.int64) - 53 - LOWEST
    whole = np.where(shift < 0, whole >> np.maximum(-shift, 0), whole)  # denormals: the bits shifted out are 0
    place, bit = np.divmod(np.maximum(shift, 0), DIGIT)
    sign, whole = np.sign(whole), np.abs(whole)
    # bit < 32 and whole < 2**53: cut the number where it crosses digits, so that nothing overflows 64 bits
    low = (whole & ((1 << DIGIT) - 1)) << bit
    high = (whole >> DIGIT) << bit
    digits = np.zeros(DIGITS, np.int64)
    for offset, part in ((0, low), (1, high)):
        np.add.at(digits, place + offset, sign * (part & ((1 << DIGIT) - 1)))
        np.add.at(digits, place + offset + 1, sign * (part >> DIGIT))
    return digits
