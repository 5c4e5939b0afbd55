"""An exact sum of float64 numbers, as digits of one long integer. It does not depend on the order."""

from kernels.arrays import is_numpy
from kernels.exact_sum import cuda, fast
from kernels.exact_sum.cuda import digits_there
from kernels.exact_sum.definition import DIGIT, DIGITS, LOWEST, NOT_FINITE


def digits_of(values):
    """Return the digits of the exact sum of float64 values, on the host (see ``definition.digits_of``). Local.

    values: one axis, fewer than 2**30 of them. Raises ValueError if one is not finite.
    """
    return (fast if is_numpy(values) else cuda).digits_of(values)


__all__ = ["DIGIT", "DIGITS", "LOWEST", "NOT_FINITE", "digits_of", "digits_there"]
