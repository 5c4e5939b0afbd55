"""Dropout: each element is kept with a probability, and then divided by it (Srivastava et al. 2014)."""

from kernels.arrays import array_module
from kernels.random import dropout_scale


def dropout(x, key, keep):
    """Return (x * scale, scale). scale: 1/keep or 0, depending on the key; None, with x itself, if keep is 1. Local."""
    if keep == 1:
        return x, None
    scale = dropout_scale(key, x.shape, keep, x.dtype, array_module(x))
    return x * scale, scale
