"""Find the library of an array, so that the same code runs on NumPy and CuPy (docs/design.md, I6)."""

import sys

import numpy as np

ALIGNMENT = 256  # bytes: enough for every library; CuPy's allocations begin at multiples of 512


def array_module(*arrays):
    """Return ``cupy`` if any argument is on a GPU, else the module of another kind of array, else ``numpy``. Local.

    Another kind names its module as the Python array API standard does: ``array.__array_namespace__()``.
    """
    cupy = sys.modules.get("cupy")  # a CuPy array can exist only after CuPy was imported
    if cupy is not None and any(isinstance(a, cupy.ndarray) for a in arrays):
        return cupy
    for a in arrays:
        if type(a) is not np.ndarray and hasattr(a, "__array_namespace__"):
            return a.__array_namespace__()
    return np


def definition_for(kernel, definition, *arrays):
    """Return the version of a kernel for arrays of another module, or its definition. Local.

    The module may have ``kernels``: name of a kernel's package -> a module with the same functions.
    """
    return getattr(array_module(*arrays), "kernels", {}).get(kernel, definition)


def is_numpy(*arrays):
    """Return True if every argument is a NumPy array, so that a Numba kernel may take it. Local."""
    for a in arrays:  # called thousands of times a step; three times as fast as all() over a generator
        if not isinstance(a, np.ndarray):
            return False
    return True


def is_float_numpy(*arrays):
    """Return True if every argument is a float32 or float64 NumPy array, as the Numba kernels need. Local."""
    for a in arrays:
        if not isinstance(a, np.ndarray) or a.dtype.char not in "fd":  # dtype.name takes longer than a small kernel
            return False
    return True


def is_float_cuda(*arrays):
    """Return True if every argument is a float32 or float64 array on a GPU, as our GPU kernels need. Local."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return False
    for a in arrays:
        if not isinstance(a, cupy.ndarray) or a.dtype.char not in "fd":
            return False
    return True


def version_for(fast, cuda, definition, *arrays):
    """Return the version of a kernel for these arrays: Numba's, the GPU's or the definition. Local."""
    return fast if is_float_numpy(*arrays) else cuda if is_float_cuda(*arrays) else definition


def read_only(array):
    """Return a view of a NumPy array that cannot be made writable; other arrays unchanged. Local.

    It is a view of a ``memoryview``, because a view of a writable array could be made writable. CuPy has no read-only
    views.
    """
    if type(array) is np.ndarray and array.dtype.kind in "biufc":
        return np.asarray(memoryview(array).toreadonly())
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array


def to_device(array):
    """Return a C-contiguous copy of a host array on the GPU; an array on the GPU unchanged. Local."""
    import cupy

    return cupy.ascontiguousarray(cupy.asarray(array))  # ascontiguousarray alone takes no host array


def as_array(xp, array):
    """Return ``xp.asarray(array)`` with the same bits: CuPy turns -0.0 into 0.0 in an array without axes. Local."""
    if np.ndim(array) or array_module(array) is xp:
        return xp.asarray(array)
    return xp.asarray(np.reshape(array, 1)).reshape(())


def aligned(array):
    """Return a device array aligned to a multiple of ALIGNMENT: itself, or a copy. NumPy arrays are unchanged. Local.

    cuBLAS may choose its algorithm by the alignment of its operands, and another algorithm gives other bits. A
    variable's place in an arena depends on the strategy, so the variable is aligned before use.
    """
    if is_numpy(array) or (array.data.ptr - array.data.mem.ptr) % ALIGNMENT == 0:
        return array
    return array.copy()


def to_numpy(array):
    """Return ``array`` on the host: itself if it is a NumPy array, else a copy. Local."""
    return array if isinstance(array, np.ndarray) else array.get()
