"""Array functions for one device. Each has a plain NumPy definition (the oracle) and fast versions.

Each kernel is a small package. ``definition.py`` defines its result in plain array code and is never optimised.
``fast.py`` is the Numba version, ``cuda.py`` the version for a GPU (see ``kernels.cuda``). The package's
``__init__`` chooses one by the type of the arguments. Kernels of codecs are single files, only for NumPy arrays.
``refimpl.plain.encoding`` defines their results.
No MPI and no models here (docs/design.md, Rooms).
"""

import kernels.compiled  # first: it reads the sources of all kernels before they are imported
from kernels.arrays import array_module, is_numpy, to_numpy
from kernels.rows import RowGradient, aggregate_rows, merge_rows, take_rows, unique_ids

__all__ = ["RowGradient", "aggregate_rows", "array_module", "is_numpy", "merge_rows", "take_rows", "to_numpy",
           "unique_ids"]
