"""``python -m refimpl``: one thread a rank, set before NumPy is loaded, then the command line."""

import ctypes
import os
import signal
import sys

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are loaded: no traceback from within them

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # more threads would fight for the cores and may sum in another order

from refimpl.transport.job.supervisor import supervised  # noqa: E402


def run() -> int:
    """Run the command line, under a supervisor where a launcher of MPI's has started it; return the exit status."""
    return supervised(_main)


def _main() -> int:
    from refimpl.cli import main  # in the rank alone: its supervisor needs none of it

    keep_freed_memory()
    return main()


def keep_freed_memory():
    """Let glibc keep up to 256 MiB of freed memory.

    Otherwise the arrays of a step may go back to Linux, and the next step waits while Linux clears new pages for them.
    """
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(-1, 2**28)  # M_TRIM_THRESHOLD
        mallopt(-3, 2**25)  # M_MMAP_THRESHOLD, which otherwise rises to this value while a program runs


if __name__ == "__main__":
    sys.exit(run())
