"""A stand-in for CuPy: the same names, backed by NumPy, strict about what would move data off a GPU.

Put ``tests/device/standin`` on PYTHONPATH (or first in sys.path) and ``import cupy`` finds it: no GPU is needed. What
it holds a program to:

- A device array and a NumPy array never meet in one operation, nor is one written into the other: TypeError, as CuPy
  says it. ``np.asarray(device array)`` is a TypeError too. ``numpy.f(device array)`` is cupy's f, as with CuPy.
- Every transfer is counted in ``cupy.standin.transfers``: to the device (``asarray(host)``, ``.set``), to the host
  (``.get``, ``asnumpy``), and what makes the host wait for a number (``float(x)``, ``bool(x)``, ``x.item()``,
  ``unique``, ``flatnonzero``, a boolean index, ...). ``with cupy.standin.counting() as count`` counts what happens inside.
- Only names are there that CuPy has (tests/device/test_standin.py holds them to the real one where it is installed);
  one that is missing: add it to ``_functions``.
- What CuPy does by floating-point atomics, in no fixed order (``add.at`` of repeated floats, ``bincount`` with
  weights), is refused: it could not be the same bits twice.
- ``get_default_memory_pool().set_limit`` limits it: beyond is ``cupy.cuda.memory.OutOfMemoryError``.

- Two streams that use the same memory, one of them writing, are ordered by events or by the host; memory is given back
  only when no other stream uses it: ``RaceError`` else (see ``_races``).

What it does not pretend: work happens at once, whatever the stream (streams and events remember their calls in
``cupy.standin.calls``); CUDA source is not run. The memory behind an array is host memory, of which
``array.data.ptr`` is the address, so that a stand-in of NCCL can truly move it.
"""

import numpy as _np

from cupy import cuda, standin
from cupy._array import ndarray
from cupy._functions import CONSTANTS, DTYPES, function, ufunc_names, array_names
from cupy._moves import array, asarray, ascontiguousarray, asnumpy, from_dlpack
from cupy.cuda.memory import get_default_memory_pool

__version__ = "14.0.0"  # the stand-in speaks for this one

for _name in DTYPES + CONSTANTS:
    globals()[_name] = getattr(_np, _name)
for _name in ufunc_names() + array_names():
    globals()[_name] = function(_name)

from cupy import _bodies  # noqa: E402

_bodies.install()
