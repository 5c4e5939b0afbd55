"""Memory that the ranks of one machine share, and how they wait for each other in it without ever hanging."""

import os
import time
import weakref
from pathlib import Path

import numpy as np
from mpi4py import MPI

from kernels.atomics import LINE
from kernels.shared_sum.steps import reach
from refimpl.transport.host import core_numbers
from refimpl.transport.waiting import PATIENCE_SECONDS, CollectiveError

LOOK_AFTER = 50_000_000  # nanoseconds of waiting after which Python sees to signals and to the others' health
SPINS = 2000  # looks at a flag before the core is offered to others, where each rank has a core
SPINS_CROWDED = 20
MEMORY_FILES = Path("/dev/shm")  # where MPI libraries keep shared memory on Linux
_MADE = MPI.Comm.Create_keyval()


def aligned(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to whole cache lines. Local."""
    return -(-nbytes // LINE) * LINE


class SharedWindow:
    """``nbytes`` of zeros at ``address`` that all ranks of a machine see, after one flag for each rank.

    ranks: the names, in error messages, of the ranks of ``mpi``.  patience: seconds after which a rank that has not
    come is given up.  Collective over ``mpi`` to make and to ``close``; raises ValueError where the machine has too
    little shared memory. A window dropped without ``close`` is freed when another is made on ``mpi`` and all ranks
    have dropped it and its arrays, or at the end: freeing is collective, and garbage is found at any time.
    """

    def __init__(self, mpi, ranks, nbytes: int, patience: float = PATIENCE_SECONDS):
        self.mpi, self.ranks, self.patience = mpi, tuple(ranks), patience
        self.me, self.count = mpi.Get_rank(), mpi.Get_size()
        self.heed = lambda: None  # called while waiting for long; what it raises ends that
        self.flag = 0  # the same on all ranks between two collectives
        self.pids = np.empty(self.count, np.int64)
        mpi.Allgather(np.array([os.getpid()], np.int64), self.pids)
        header = (self.count + 1) * LINE
        _free_dropped(mpi)
        _check_space(mpi, header + nbytes)
        self._window = MPI.Win.Allocate_shared(header + nbytes if self.me == 0 else 0, 1, comm=mpi)
        base = self._window.Shared_query(0)[0].address
        self.flags = aligned(base)
        self.address, self.nbytes = self.flags + self.count * LINE, nbytes
        cores = {core for pid in (0, *self.pids.tolist()) for core in core_numbers(pid)}
        self.spins = SPINS if self.count <= len(cores) else SPINS_CROWDED
        _made(mpi).append((self._window, weakref.ref(self)))
        if self.me == 0:
            _Memory(self.flags, self.count * LINE, None).array(0, self.count * LINE, np.uint8)[:] = 0
        mpi.Barrier()

    def array(self, offset: int, elements: int, dtype):
        """Return the (elements,) array ``offset`` bytes into the window. Local."""
        memory = _Memory(self.address + offset, elements * np.dtype(dtype).itemsize, self)
        return memory.array(0, elements, dtype)

    def do(self, steps, *arguments):
        """Run a function of ``kernels.shared_sum`` to its end; return DONE, or another end's negative number.

        Collective; raises CollectiveError rather than hang.
        """
        step = steps(0, self.flags, self.me, self.count, self.flag, self.spins, LOOK_AFTER, *arguments)
        return step if step < 0 else self._persist(steps, step, arguments)

    def reach(self, waits: bool):
        """Tell the others that this rank is here; where it ``waits``, until all are. Collective over the machine."""
        self.flag += 1
        self.do(reach, waits)

    def close(self):
        """Free the memory: arrays in it must not be used any more. Collective over the machine."""
        made = _made(self.mpi)
        made[:] = [(window, owner) for window, owner in made if owner() is not self]
        if self._window:
            self._window.Free()

    def _persist(self, steps, step, arguments):
        before, deadline = step, time.monotonic() + self.patience
        while step >= 0:
            self._look_after(deadline)
            step = steps(step, self.flags, self.me, self.count, self.flag, self.spins, LOOK_AFTER, *arguments)
            if step != before:
                before, deadline = step, time.monotonic() + self.patience
        return step

    def mourn(self, what: str):
        """Raise CollectiveError: of a rank that has died, or, where all live on for a second, with the words given."""
        deadline = time.monotonic() + 1  # a process that ends gives its memory back before it is known to have ended
        while time.monotonic() < deadline:
            self._look_after(deadline + self.patience)
            time.sleep(0.01)
        raise CollectiveError(what)

    def _look_after(self, deadline):
        self.heed()
        dead = [rank for rank, pid in zip(self.ranks, self.pids) if not _alive(int(pid))]
        if dead:
            raise CollectiveError(f"rank {', '.join(map(str, dead))} died: its process on this machine has ended")
        if time.monotonic() > deadline:
            reached = self._flags_now()
            late = [rank for rank, flag in zip(self.ranks, reached) if flag == reached.min()]
            raise CollectiveError(f"rank {', '.join(map(str, late))} did not come within {self.patience:g} s")

    def _flags_now(self):
        memory = _Memory(self.flags, self.count * LINE, self)
        return memory.array(0, self.count * LINE // 8, np.int64)[::LINE // 8].copy()


def _made(mpi) -> list:
    """Return a communicator's list of (MPI window, reference to its SharedWindow), as long on all ranks."""
    if mpi.Get_attr(_MADE) is None:
        mpi.Set_attr(_MADE, [])
    return mpi.Get_attr(_MADE)


def _free_dropped(mpi):
    """Free the windows that no rank uses any more. Collective over ``mpi``."""
    made = _made(mpi)
    dropped = np.array([owner() is None for _, owner in made], np.int64)
    mpi.Allreduce(MPI.IN_PLACE, dropped, MPI.MIN)
    for (window, _), unused in zip(made, dropped):
        if unused:
            window.Free()
    made[:] = [entry for entry, unused in zip(made, dropped) if not unused]


def _check_space(mpi, nbytes):
    """Raise ValueError on all ranks of a machine if its memory file system is too small: writing would kill them."""
    free = np.array([nbytes], np.int64)
    if mpi.Get_rank() == 0 and MEMORY_FILES.is_dir():
        status = os.statvfs(MEMORY_FILES)
        free[0] = status.f_bavail * status.f_frsize
    mpi.Bcast(free)
    if free[0] < nbytes:
        raise ValueError(f"{MEMORY_FILES} has {free[0] >> 20} MiB free, shared memory needs {-(-nbytes >> 20)}: "
                         "enlarge it (containers: --shm-size), or do without shared memory")


class _Memory:
    """Bytes at an address, for NumPy; keeps the window alive as long as an array of it is."""

    def __init__(self, address, nbytes, window):
        self.window = window
        self.__array_interface__ = {"data": (address, False), "shape": (nbytes,), "typestr": "|u1", "version": 3}

    def array(self, offset, elements, dtype):
        return np.asarray(self)[offset:].view(dtype)[:elements]


def _alive(pid):
    """Return False if the process has ended, were it not yet buried by its parent."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):  # not ours to signal, or no /proc: alive as far as we know
        return True
    return state not in "ZX"
