"""Host to device and back."""

import numpy as np

from cupy import _touched, standin
from cupy._array import SCALARS, ndarray, unwrap, wrap


def _sent(a, dtype, order):
    host = np.array(a, dtype=dtype, order=order)
    standin.crossed("to_device", host.nbytes, f"array {host.dtype} {host.shape}")
    return wrap(host)


def array(obj, dtype=None, copy=True, order="K", subok=False, ndmin=0, blocking=False):
    """Return a new device array of a host array, a device array, or numbers."""
    if isinstance(obj, ndarray):
        copied = np.array(obj._host, dtype=dtype, copy=True if copy else None, order=order, ndmin=ndmin)
        _touched.note(copied, (obj,))
        return wrap(copied, obj)
    if isinstance(obj, (list, tuple)) and any(isinstance(one, ndarray) for one in obj):
        stacked = np.array(unwrap(obj), dtype=dtype)  # CuPy stacks them on the device
        _touched.note(stacked, obj)
        return wrap(stacked)
    sent = _sent(obj, dtype, "C" if order == "K" and not isinstance(obj, np.ndarray) else order)
    if not sent.ndim and sent._host == 0:
        sent._host[...] = 0  # CuPy fills it, and so -0.0 is lost
    return sent if ndmin <= sent.ndim else sent.reshape((1,) * (ndmin - sent.ndim) + sent.shape)


def asarray(a, dtype=None, order=None, *, blocking=False, copy=None):
    """Return ``a`` itself if it is a device array of that dtype, else a new device array."""
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    return array(a, dtype, order=order or "K")


def ascontiguousarray(a, dtype=None):
    """Return a C-contiguous device array of a device array: CuPy takes nothing else."""
    if not isinstance(a, ndarray):
        raise TypeError(f"Argument 'a' has incorrect type (expected cupy.ndarray, got {type(a)})")
    if not a.flags.c_contiguous:
        standin.launched("copy", "ascontiguousarray")
    if not a.ndim:
        return asarray(a, dtype)
    found = np.ascontiguousarray(a._host, dtype)
    _touched.note(found, (a,))
    return wrap(found, a)


def asnumpy(a, stream=None, order="C", out=None, *, blocking=True):
    """Return a NumPy array of a device array, or of anything that NumPy takes."""
    if isinstance(a, ndarray):
        return a.get(stream, order, out)
    return np.asarray(a, order=order)


def from_dlpack(array, **_):
    """Return a device array in the memory of another library's array, whose device is the host here."""
    return wrap(np.from_dlpack(array))


__all__ = ["SCALARS", "array", "asarray", "ascontiguousarray", "asnumpy", "from_dlpack"]
