"""Making enclosures and moving their elements about: nothing rounds but a number that goes to a coarser dtype."""

import numpy as np

from refimpl.enclosure import elementwise
from refimpl.enclosure.enclosure import Enclosure


def enclosed(value, dtype=None) -> Enclosure:
    """Return an enclosure of a dtype: itself, balls of radius 0 around numbers, or what rounding to it makes. Local."""
    if not isinstance(value, Enclosure):
        return Enclosure.exact(value, dtype)
    if dtype is None or np.dtype(dtype) == value.dtype:
        return value
    if np.finfo(dtype).eps <= np.finfo(value.dtype).eps:
        return Enclosure(value.middle.copy(), value.radius.copy(), dtype)
    if not value.radius.any():
        return Enclosure.exact(value.middle, dtype)
    return elementwise.grown(value.middle, value.radius, elementwise.once(value.magnitude, dtype), dtype)


def common(*values):
    """Return the values' common dtype, by NumPy's rules. Local."""
    known = [np.empty(0, v.dtype) if isinstance(v, Enclosure) else v for v in values]
    return np.result_type(*known)


def asarray(value, dtype=None):
    """Return integers and truths as NumPy's, numbers as an enclosure."""
    if isinstance(value, Enclosure):
        return enclosed(value, dtype)
    value = np.asarray(value, dtype)
    return Enclosure.exact(value) if value.dtype.kind == "f" else value


def zeros(shape, dtype=np.float64):
    """Return balls of radius 0 around 0, or integers."""
    return asarray(np.zeros(shape, dtype))


def ones(shape, dtype=np.float64):
    """Return balls of radius 0 around 1, or integers."""
    return asarray(np.ones(shape, dtype))


def zeros_like(a):
    """Return zeros of an enclosure's shape and dtype."""
    return zeros(a.shape, a.dtype)


empty, empty_like = zeros, zeros_like


def ascontiguousarray(a):
    """Return a copy in C order."""
    return a.moved(np.array)


def broadcast_to(a, shape):
    """Return a read-only view of another shape."""
    return a.moved(lambda values: np.broadcast_to(values, shape))


def pad(a, widths):
    """Return an array with zeros around it."""
    return np.pad(a, widths) if isinstance(a, np.ndarray) else a.moved(lambda values: np.pad(values, widths))


def split(a, sections, axis=0):
    """Return equal parts along an axis: views."""
    size = a.shape[axis] // sections
    before = (slice(None),) * axis
    return [a[(*before, slice(k * size, (k + 1) * size))] for k in range(sections)]


def concatenate(arrays, axis=0):
    """Return arrays joined along an axis; enclosures among them make it one."""
    if not any(isinstance(a, Enclosure) for a in arrays):
        return np.concatenate(arrays, axis)
    dtype = common(*arrays)
    parts = [enclosed(a, dtype) for a in arrays]
    return Enclosure(np.concatenate([p.middle for p in parts], axis), np.concatenate([p.radius for p in parts], axis),
                     dtype)
