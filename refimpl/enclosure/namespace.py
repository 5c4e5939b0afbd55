"""The array module of enclosures: NumPy's names, as far as models and kernels use them. Integers stay NumPy's own."""

import sys

import numpy as np

from refimpl.enclosure import convolution, elementwise, lstm, sums
from refimpl.enclosure.enclosure import Enclosure, Truth
from refimpl.enclosure.moves import (  # noqa: F401 - models and kernels look for them here
    asarray, ascontiguousarray, broadcast_to, common, concatenate, empty, empty_like, enclosed, ones, pad, split, zeros,
    zeros_like)

Enclosure.functions = sys.modules[__name__]
int64, uint64, float32, float64 = np.int64, np.uint64, np.float32, np.float64
inf = np.inf
arange, unique = np.arange, np.unique
ndarray = Enclosure
kernels = {"conv": convolution, "lstm": lstm}
"""Kernels whose definition does not say all that a device may do (see ``kernels.arrays.definition_for``)."""


def written(result, out):
    """Return the result, written to ``out`` if there is one. Local."""
    if out is None:
        return result
    out[...] = result
    return out


def _binary(operation):
    def apply(a, b, out=None):
        dtype = common(a, b)
        return written(operation(enclosed(a, dtype), enclosed(b, dtype), dtype), out)

    return apply


def _unary(operation):
    def apply(a, out=None):
        return written(operation(a, a.dtype), out)

    return apply


subtract, divide, maximum = map(_binary, (elementwise.subtract, elementwise.divide, elementwise.maximum))
exp, log, tanh, sqrt, sigmoid = map(_unary, (elementwise.exp, elementwise.log, elementwise.tanh, elementwise.sqrt,
                                             elementwise.sigmoid))
negative, absolute = elementwise.negative, elementwise.absolute
abs = absolute


def multiply(a, b, out=None):
    """Return a * b; of an enclosure with itself the square, which is not negative."""
    if isinstance(b, Truth):
        return where(b, a, 0)
    dtype = common(a, b)
    result = elementwise.square(a, dtype) if a is b else elementwise.multiply(enclosed(a, dtype), enclosed(b, dtype),
                                                                              dtype)
    return written(result, out)


def less(a, b):
    """Return where a < b surely holds, and where it may."""
    dtype = common(a, b)
    return elementwise.less(enclosed(a, dtype), enclosed(b, dtype))


def greater(a, b):
    """Return where a > b surely holds, and where it may."""
    return less(b, a)


def where(condition, a, b):
    """Return a where the condition holds, else b; what holds both where that is not known."""
    dtype = common(a, b)
    return elementwise.where(condition, enclosed(a, dtype), enclosed(b, dtype), dtype)


def matmul(a, b, out=None):
    """Return the product of matrices or vectors, its sums in any order."""
    dtype = common(a, b)
    return written(sums.matmul(enclosed(a, dtype), enclosed(b, dtype), dtype), out)


def einsum(subscripts, a, b):
    """Return a sum of products over the letters that the result has not, in any order."""
    dtype = common(a, b)
    return sums.einsum(subscripts, enclosed(a, dtype), enclosed(b, dtype), dtype)


def sum(a, axis=None, dtype=None, keepdims=False):
    """Return the sum over axes, in any order."""
    dtype = np.dtype(dtype or a.dtype)
    return sums.total(enclosed(a, dtype), axis, dtype, keepdims)


def mean(a, axis=None):
    """Return the mean over axes."""
    added = sum(a, axis)
    return divide(added, a.dtype.type(a.size // added.size))


def max(a, axis=None, keepdims=False):
    """Return the largest value over axes."""
    return elementwise.between(a.lowest.max(axis=axis, keepdims=keepdims), a.highest.max(axis=axis, keepdims=keepdims),
                               a.dtype)


class _Add:
    """``add``, which has ``at``."""

    __call__ = staticmethod(_binary(elementwise.add))
    at = staticmethod(sums.add_at)


add = _Add()
