"""A sum of float64 numbers that no order can change, as digits of one long integer."""

from kernels.arrays import is_numpy
from kernels.exact_sum import cuda, definition
from kernels.exact_sum.definition import DIGIT, DIGITS, LOWEST, NOT_FINITE


def digits_of(values):
    """Return the digits of the exact sum of float64 values, on the host (see ``definition.digits_of``). Local.

    values: one axis, fewer than 2**30 of them. Raises ValueError if one is not finite.
    """
    return (definition if is_numpy(values) else cuda).digits_of(values)


def digits_there(values):
    """Return the digits of the exact sum of float64 values on a GPU: (68,) int64, there too, and nobody waits. Local.

    The last counts values that are not finite: if there are any, the sum has no digits.
    """
    return cuda.digits_there(values)


__all__ = ["DIGIT", "DIGITS", "LOWEST", "NOT_FINITE", "digits_of", "digits_there"]
