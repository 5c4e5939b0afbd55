"""Counter-based random numbers: the same bits on every rank, for any part of an array."""

import numpy as np

from kernels.arrays import array_module
from kernels.random import cuda, definition, fast
from kernels.random.definition import key_of
from kernels.random.fast import random_bits


def uniform(key, count, start=0, xp=np):
    """Return ``count`` numbers in [0, 1) (see ``definition.uniform``). Local."""
    return fast.uniform(key, count, start) if xp is np else cuda.uniform(key, count, start, xp)


def dropout_scale(key, shape, keep, dtype, xp=np, first=0, width=None):
    """Return 1/keep for kept elements and 0 for dropped ones (see ``definition.dropout_scale``). Local.

    first, width: the first column, and the width of the whole array.  Raises ValueError unless 0 < keep <= 1.
    """
    if not 0 < keep <= 1:
        raise ValueError(f"keep is {keep}: give a probability above 0 and up to 1")
    if np.dtype(dtype).name in ("float32", "float64"):
        if xp is np:
            return fast.dropout_scale(key, shape, keep, dtype, first, width)
        if xp.__name__ == "cupy":
            return cuda.dropout_scale(key, shape, keep, dtype, xp, first, width)
    return definition.dropout_scale(key, shape, keep, dtype, xp, first, width)


def dropout(x, key, keep):
    """Return (x * scale, scale), by ``dropout_scale``; (x, None) if keep is 1. Local. (Srivastava et al. 2014)"""
    if keep == 1:
        return x, None
    scale = dropout_scale(key, x.shape, keep, x.dtype, array_module(x))
    return x * scale, scale


__all__ = ["dropout", "dropout_scale", "key_of", "random_bits", "uniform"]
