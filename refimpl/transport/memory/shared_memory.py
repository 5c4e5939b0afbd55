"""Memory that the ranks of one machine share, and waits in it that never hang.

It is a file in memory, which each rank of the machine maps. Then its name is removed. So the file disappears when the
last rank ends, in whatever way.
"""

import mmap
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from kernels.atomics import LINE
from kernels.shared_sum.steps import reach
from refimpl.transport.errors import PeerDied, SilentPeer, silent_peer
from refimpl.transport.exchange import ArrayExchange
from refimpl.transport.job.host import core_numbers
from refimpl.transport.job.leftovers import MEMORY_FILES, OURS
from refimpl.transport.waiting import Waiter

LOOK_AFTER = 50_000_000  # nanoseconds of waiting after which Python checks for signals and for ranks that have ended
SPINS = 2000  # looks at a flag before a rank offers its core to others, if each rank has a core
SPINS_CROWDED = 20


def aligned(nbytes: int) -> int:
    """Return ``nbytes`` rounded up to whole cache lines. Local."""
    return -(-nbytes // LINE) * LINE


class SharedWindow:
    """``nbytes`` at ``address`` that a machine's ranks share, after a flag of each rank. The constructor is local.

    memory: (len(ranks) * LINE + nbytes,) uint8, zeros; views of it keep it mapped.  ranks: of the machine.  pids: the
    numbers of their processes.  waiter: how this rank waits.  what: named in errors.
    """

    def __init__(self, memory, ranks: tuple[int, ...], pids, waiter: Waiter, what: str):
        self.memory, self.ranks, self.pids, self.waiter, self.what = memory, ranks, pids, waiter, what
        self.me, self.count = ranks.index(waiter.rank), len(ranks)
        self.flag = 0  # the same on all ranks between two collectives
        self.flags = memory.ctypes.data
        self.header = self.count * LINE
        self.address, self.nbytes = self.flags + self.header, memory.size - self.header
        cores = {core for pid in (0, *pids.tolist()) for core in core_numbers(pid)}
        self.spins = SPINS if self.count <= len(cores) else SPINS_CROWDED

    @classmethod
    def open(cls, comm: ArrayExchange, nbytes: int, what: str) -> "SharedWindow":
        """Return ``nbytes`` of zeros that the ranks of this rank's machine share. Collective over all ranks.

        nbytes: the same on all ranks of a machine.  what: named in errors.  Raises CollectiveError on all ranks if a
        machine has too little shared memory.
        """
        size, leader, made = len(comm.machine) * LINE + nbytes, comm.machine[0], []
        try:
            comm.together(lambda: made.append(_make_file(size)) if comm.rank == leader else None, (ValueError, OSError))
            path = comm.share_text("".join(path for _, path in made))[leader]
            memory = comm.together(lambda: _map_file(path, size), (OSError,))
        finally:
            for descriptor, path in made:
                os.unlink(path)
                os.close(descriptor)
        pids = comm.gather_numbers([os.getpid()], what)[list(comm.machine), 0]
        return cls(memory, comm.machine, pids, comm.waiter, what)

    def array(self, offset: int, elements: int, dtype) -> np.ndarray:
        """Return the (elements,) array that begins ``offset`` bytes into the window. Local."""
        first = self.header + offset
        return self.memory[first:first + elements * np.dtype(dtype).itemsize].view(dtype)

    def do(self, steps, *arguments) -> int:
        """Run a function of ``kernels.shared_sum`` to its end; return DONE, or the negative number of another end.

        Collective over the machine. Raises SilentPeer, with the rank, if one has ended or does not come in time.
        """
        step = steps(0, self.flags, self.me, self.count, self.flag, self.spins, LOOK_AFTER, *arguments)
        return step if step < 0 else self._persist(steps, step, arguments)

    def reach(self, waits: bool):
        """Tell the others that this rank has arrived. waits: wait until all have. Collective over the machine."""
        self.flag += 1
        self.do(reach, waits)

    def fail(self, what: str):
        """Raise SilentPeer for the rank that has ended; after a second without any, with the text ``what``. Local."""
        end = time.monotonic() + 1  # a process frees its memory before others can see that it has ended
        while time.monotonic() < end:
            self._check_peers(end)
            time.sleep(0.01)
        raise SilentPeer(what)

    def _persist(self, steps, step, arguments):
        """Continue from ``step``, at which this rank has waited LOOK_AFTER for others."""
        before, since = step, time.monotonic()
        while step >= 0:
            self._check_peers(since)
            step = steps(step, self.flags, self.me, self.count, self.flag, self.spins, LOOK_AFTER, *arguments)
            if step != before:
                before, since = step, time.monotonic()
        return step

    def check_alive(self):
        """Raise Aborted after an abort message, PeerDied if a rank of this machine has ended. Local."""
        if self.waiter.beside is not None:
            self.waiter.beside()
        self.waiter.abort_messages.check()
        ended = [rank for rank, pid in zip(self.ranks, self.pids) if not _alive(int(pid))]
        if ended:
            raise PeerDied(f"rank {', '.join(map(str, ended))} died: its process on this machine has ended")

    def _check_peers(self, since):
        """Raise an error after an abort message, a death, or the time-out. since: when the wait began."""
        self.check_alive()
        if time.monotonic() > since + self.waiter.timeout:
            reached = self.memory[:self.header].view(np.int64)[::LINE // 8].copy()
            late = [rank for rank, flag in zip(self.ranks, reached) if flag == reached.min()]
            raise silent_peer(self.waiter.rank, self.waiter.timeout, late, self.what)


def _make_file(nbytes) -> tuple[int, str]:
    """Make a file of zeros in memory; return its descriptor, open so that it is no leftover (leftovers.py), and path.

    Raises ValueError if there is too little memory, because writing to the file would kill the ranks.
    """
    folder = MEMORY_FILES if MEMORY_FILES.is_dir() else Path(tempfile.gettempdir())
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    if free < nbytes:
        raise ValueError(f"{folder} has {free >> 20} MiB free, shared memory needs {-(-nbytes >> 20)}: "
                         "enlarge it (containers: --shm-size), or do without shared memory (--no-shared-memory)")
    descriptor, path = tempfile.mkstemp(prefix=OURS, dir=folder)
    os.ftruncate(descriptor, nbytes)
    return descriptor, path


def _map_file(path, nbytes):
    """Return the file's bytes as an array. All processes that map it share its contents."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
    finally:
        os.close(descriptor)


def _alive(pid):
    """Return False if the process has ended, even if its parent has not asked for its status yet."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except (OSError, IndexError):  # another user's process, or no /proc: assume that it is alive
        return True
    return state not in "ZX"
