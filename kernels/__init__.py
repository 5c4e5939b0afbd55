"""Array functions that know one device: a plain NumPy definition (the oracle) beside every fast version.

Each kernel is a small package: ``definition.py`` says what it means in plain array code and is never
optimised; ``fast.py`` is the Numba version, ``cuda.py`` the one for a GPU (see ``kernels.cuda``); the package's
``__init__`` picks one by the type of its arguments.
No MPI and no models here (docs/design.md, Rooms).
"""

import kernels.compiled  # before any kernel is imported: it reads their sources first
from kernels.arrays import array_module, is_numpy, to_numpy
from kernels.rows import RowGradient, aggregate_rows, merge_rows, take_rows, unique_ids

__all__ = ["RowGradient", "aggregate_rows", "array_module", "is_numpy", "merge_rows", "take_rows", "to_numpy",
           "unique_ids"]
