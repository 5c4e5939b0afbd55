"""``python -m refimpl``: one thread a rank, set before NumPy is loaded, then the command line."""

import os
import sys

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # more threads would fight for the cores and may sum in another order

from refimpl.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
