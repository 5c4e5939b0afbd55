"""cupyx of the stand-in: pinned host arrays, and what changes how CuPy computes."""

import contextlib

import numpy as np


def empty_pinned(shape, dtype=float, order="C"):
    return np.empty(shape, dtype, order)


def zeros_pinned(shape, dtype=float, order="C"):
    return np.zeros(shape, dtype, order)


def empty_like_pinned(a, dtype=None, order="K", subok=None, shape=None):
    return np.empty(a.shape if shape is None else shape, dtype or a.dtype)


@contextlib.contextmanager
def errstate(**_):
    yield


def scatter_add(a, slices, value):
    import cupy

    cupy.add.at(a, slices, value)


def rsqrt(x):
    import cupy

    return 1 / cupy.sqrt(x)
