"""Plain array code for the places of the largest elements: the oracle. Never optimised."""

from kernels.arrays import array_module


def largest(values, count):
    """Return the places of the ``count`` largest |values|, of equal ones the first: sorted int64."""
    xp = array_module(values)
    return xp.sort(xp.argsort(-abs(values), kind="stable")[:count])
