"""Remove files that killed jobs left in shared memory, if no process uses them.

A job that ends, even by an abort, removes its files. After SIGKILL they stay, a few MiB for each job, until the memory
is full. The process that makes such a file keeps it open or mapped until its job ends. So a file that no process has
open or mapped belongs to no job. The kernel grants a lease for writing only on such a file (fcntl(2), F_SETLEASE), and
it knows all processes, also those of other containers.
"""

import fcntl
import os
import re
import signal
import stat
from contextlib import suppress
from pathlib import Path

MEMORY_FILES = Path("/dev/shm")
"""The folder of files in memory on Linux."""

OURS = "refimpl-window-"
MADE_BY_JOBS = re.compile(OURS + r"\w{8}|mpich_shm_\w+|ucx_shm_posix_\w+|(sm|vader)_segment\.[\w.-]+")
"""The names of files: our own, MPICH's, UCX's (used by MPICH), Open MPI's (since version 5, and before)."""


def remove_leftovers(folder: Path = MEMORY_FILES) -> list[str]:
    """Remove this user's leftovers in ``folder`` that no process has open or mapped; return their names. Local.

    A file stays if that cannot be known for certain.
    """
    if not hasattr(fcntl, "F_SETLEASE"):
        return []
    with suppress(OSError):
        return [name for name in os.listdir(folder) if MADE_BY_JOBS.fullmatch(name) and _removed(folder / name)]
    return []


def _removed(path) -> bool:
    """Remove the file if it is this user's and no process has it open or mapped; return whether it was removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # another user's, or removed already
        return False
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return False
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)  # ignored; by default it would end this process
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.unlink(path)
        return True
    except OSError:  # in use
        return False
    finally:
        os.close(descriptor)
