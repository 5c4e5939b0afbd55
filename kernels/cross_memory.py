"""Read and write the memory of another process with one system call (Linux: cross memory attach), for Numba code.

The host must allow it: same user, no sandbox between the processes, ptrace_scope 0 of Yama. ``reaches`` tries it.
"""

import os
import platform
import sys

import numpy as np

from kernels.atomics import syscall
from kernels.compiled import compiled

_NUMBERS = {"x86_64": (310, 311), "aarch64": (270, 271)}  # of process_vm_readv and process_vm_writev
READ, WRITE = _NUMBERS.get(platform.machine(), (0, 0)) if sys.platform == "linux" else (0, 0)


@compiled
def transfer(call, pid, here, there, nbytes, words):
    """Copy ``nbytes`` from (call: READ) or to (WRITE) address ``there`` of process ``pid``; return success. Local.

    here: address in this process.  words: (4,) int64, scratch.
    """
    words[0], words[1], words[2], words[3] = here, nbytes, there, nbytes
    return syscall(call, pid, words.ctypes.data, 1, words.ctypes.data + 16, 1, 0) == nbytes


def reaches(call: int, pid: int, array, there: int) -> bool:
    """Try to read ``array`` from (READ) or write it to (WRITE) an address of process ``pid``; return success. Local."""
    words = np.empty(4, np.int64)
    return call > 0 and bool(transfer(call, pid, array.ctypes.data, there, array.nbytes, words))


def attachable(array) -> bool:
    """Return whether other processes can read an array's memory; a GPU's they cannot. Local."""
    byte, pages = np.empty(1, np.uint8), (0, array.nbytes - 1) if array.nbytes else ()
    return all(reaches(READ, os.getpid(), byte, array.ctypes.data + place) for place in pages)
