"""The digits of ``definition`` on a GPU, in one launch. For each digit its own threads add up the numbers' bits.

A float64's bits are its sign, 11 bits of exponent e and 52 of mantissa m: (2**52 + m) * 2**(e - 1075), or
m * 2**-1074 for e = 0. Integers are added, so any number of threads gives the same digits.
"""

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_row
from kernels.exact_sum.definition import DIGITS, NOT_FINITE
from kernels.exact_sum.fast import INFINITE, LOW, MANTISSA

LANES = 256


def digits_of(values):
    """See ``definition.digits_of``. The host waits for the result."""
    *digits, infinite = digits_there(values).get()
    if infinite:
        raise ValueError(NOT_FINITE)
    return np.array(digits)


def digits_there(values):
    """Return the digits of the exact sum of float64 values on a GPU: (68,) int64, on the GPU, without waiting. Local.

    The last entry counts values that are not finite. If it is not 0, the digits have no meaning.
    """
    xp = array_module(values)
    digits = xp.empty(DIGITS + 1, np.int64)
    bits = xp.ascontiguousarray(values).view(np.int64)
    add_digit(DIGITS + 1, LANES, len(bits), bits, digits)
    return digits


def note_digit(digit, total, count, values, digits):
    """Write a digit of the sum."""
    digits[digit] = total


@each_row(note_digit, partial="int64")
def add_digit(digit, lane, lanes, count, values, digits):
    """Return the sum of a digit over every lanes-th value; past the last digit, the count of values not finite."""
    total = np.int64(0)
    for i in range(lane, count, lanes):
        bits = values[i]
        exponent = (bits >> 52) & INFINITE
        whole = bits & MANTISSA
        if exponent == INFINITE:
            total += 1 if digit == DIGITS else 0
        elif whole != 0 or exponent != 0:
            if exponent > 0:
                whole += MANTISSA + 1
                exponent -= 1
            offset = digit - (exponent >> 5)
            if 0 <= offset <= 2:
                shift = exponent & 31
                low, high = (whole & LOW) << shift, (whole >> 32) << shift
                if offset == 0:
                    part = low & LOW
                elif offset == 1:
                    part = (low >> 32) + (high & LOW)
                else:
                    part = high >> 32
                total += -part if bits < 0 else part
    return total
