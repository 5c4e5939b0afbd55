"""The digits of ``definition`` in Numba: one pass over the bits, which ``cuda`` explains."""

import numpy as np

from kernels.compiled import compiled
from kernels.exact_sum.definition import DIGIT, DIGITS, NOT_FINITE

MANTISSA = np.int64(2**52 - 1)
LOW = np.int64(2**32 - 1)
INFINITE = 0x7FF


def digits_of(values):
    digits = np.zeros(DIGITS, np.int64)
    if not _add(np.ascontiguousarray(values).view(np.int64), digits):
        raise ValueError(NOT_FINITE)
    return digits


@compiled
def _add(bits, digits) -> bool:
    """Add the digits of all numbers; return whether all are finite."""
    for each in bits:
        exponent, whole = (each >> 52) & INFINITE, each & MANTISSA
        if exponent == INFINITE:
            return False
        if exponent:
            whole, exponent = whole + MANTISSA + 1, exponent - 1
        place, bit, sign = exponent // DIGIT, exponent % DIGIT, 1 if each >= 0 else -1
        low, high = (whole & LOW) << bit, (whole >> DIGIT) << bit
        digits[place] += sign * (low & LOW)
        digits[place + 1] += sign * ((low >> DIGIT) + (high & LOW))
        digits[place + 2] += sign * (high >> DIGIT)
    return True
