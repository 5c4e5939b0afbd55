"""Which array library holds this array? One code for NumPy and CuPy (docs/design.md, I6)."""

import sys

import numpy as np

ALIGNMENT = 256  # bytes: no library asks for more, and CuPy's allocations begin at multiples of 512


def array_module(*arrays):
    """Return ``cupy`` if any argument lives on a GPU, the module that another kind of array has, else ``numpy``. Local.

    Another kind gives it as in the Python array API standard: ``array.__array_namespace__()``.
    """
    cupy = sys.modules.get("cupy")  # an array of CuPy can only exist once CuPy is imported
    if cupy is not None and any(isinstance(a, cupy.ndarray) for a in arrays):
        return cupy
    for a in arrays:
        if type(a) is not np.ndarray and hasattr(a, "__array_namespace__"):
            return a.__array_namespace__()
    return np


def definition_for(kernel, definition, *arrays):
    """Return the plain version of a kernel: its definition, or what the arrays' module has for it. Local.

    module.kernels, where there is one: name of the kernel's package -> a module with the same functions.
    """
    return getattr(array_module(*arrays), "kernels", {}).get(kernel, definition)


def is_numpy(*arrays):
    """Return True if every argument is a NumPy array, so that a Numba kernel may take it. Local."""
    for a in arrays:  # asked thousands of times a step: three times as fast as all() over a generator
        if not isinstance(a, np.ndarray):
            return False
    return True


def is_float_numpy(*arrays):
    """Return True if every argument is a float32 or float64 NumPy array: what the Numba kernels are made for. Local."""
    for a in arrays:
        if not isinstance(a, np.ndarray) or a.dtype.char not in "fd":  # dtype.name takes longer than a small kernel
            return False
    return True


def is_float_cuda(*arrays):
    """Return True if every argument is a float32 or float64 array on a GPU: what our kernels there are for. Local."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return False
    for a in arrays:
        if not isinstance(a, cupy.ndarray) or a.dtype.char not in "fd":
            return False
    return True


def version_for(fast, cuda, definition, *arrays):
    """Return the version of a kernel that takes these arrays: Numba's, the GPU's or the plain one. Local."""
    return fast if is_float_numpy(*arrays) else cuda if is_float_cuda(*arrays) else definition


def read_only(array):
    """Return a view of a NumPy array that nobody can write to, or make writable again; others as they are. Local.

    CuPy has no such views. (A view whose base is writable could be made so: hence the detour by ``memoryview``.)
    """
    if type(array) is np.ndarray and array.dtype.kind in "biufc":
        return np.asarray(memoryview(array).toreadonly())
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array


def to_device(array):
    """Return a host array as a C-contiguous one on the GPU; one that is there already, as it is. Local."""
    import cupy

    return cupy.ascontiguousarray(cupy.asarray(array))  # which by itself takes no host array


def as_array(xp, array):
    """Return ``xp.asarray(array)``, and every bit of it: CuPy makes 0.0 of -0.0 in an array without axes. Local."""
    if np.ndim(array) or array_module(array) is xp:
        return xp.asarray(array)
    return xp.asarray(np.reshape(array, 1)).reshape(())


def aligned(array):
    """Return a device array that lies at a multiple of ALIGNMENT: itself, or a copy; a NumPy array as it is. Local.

    cuBLAS may choose how it multiplies by where its operands lie, and another way is other bits: so what lies in an
    arena, at a place that depends on its strategy, is brought to a place like any other's.
    """
    if is_numpy(array) or (array.data.ptr - array.data.mem.ptr) % ALIGNMENT == 0:
        return array
    return array.copy()


def to_numpy(array):
    """Return ``array`` on the host: itself if it is a NumPy array, else a copy. Local."""
    return array if isinstance(array, np.ndarray) else array.get()
