"""Counter-based random numbers: the same bits on every rank, whatever part of an array it holds."""

from kernels.random.definition import key_of, random_bits, uniform
from kernels.random import definition


def dropout_scale(key, shape, keep, dtype, xp):
    """Return 1/keep where an element is kept and 0 where it is dropped (see ``definition.dropout_scale``). Local."""
    return definition.dropout_scale(key, shape, keep, dtype, xp)


__all__ = ["dropout_scale", "key_of", "random_bits", "uniform"]
