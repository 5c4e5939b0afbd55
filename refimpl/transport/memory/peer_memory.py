"""Add up long private arrays of one machine's ranks in place, if the host lets ranks reach each other's memory.

Copying in and out through shared memory takes a wait for the others at each segment, and passes each line of memory
from core to core; here ranks meet twice a call. Whether the host lets them is tried: containers and Yama may forbid it.
"""

import os
from weakref import WeakKeyDictionary

import numpy as np

from kernels.atomics import LINE
from kernels.cross_memory import READ, WRITE, attachable, reaches
from kernels.shared_sum.private import EVENTS, LOST, UNATTACHABLE, where_they_lie
from refimpl.transport.exchange import ArrayExchange
from refimpl.transport.memory.shared_memory import SharedWindow
from refimpl.transport.waiting import keep_for_ever

LONG = 8 << 20  # bytes of a vector from which on reading others is no slower than a pipeline at its quickest
COPIES = 1 << 20  # bytes of a segment of all arrays together: about a core's cache; less, and system calls cost more
SMALLEST_SEGMENT = 16 << 10
_found: WeakKeyDictionary[ArrayExchange, bool] = WeakKeyDictionary()


def ranks_reach_each_other(comm: ArrayExchange) -> bool:
    """Return whether the ranks of each machine can read and write each other's memory. Collective; tried once."""
    if comm not in _found:
        _found[comm] = _tried(comm)
    return _found[comm]


def _tried(comm):
    """Read a secret in every other rank's memory; only where all find theirs, in the right process, write it back."""
    what = "the trial whether ranks reach each other's memory"
    secret = np.frombuffer(os.urandom(8), np.int64).copy()
    told = comm.gather_numbers([os.getpid(), secret.ctypes.data, secret[0]], what)
    others = [(pid, there, np.array([number]))
              for pid, there, number in (told[rank].tolist() for rank in comm.machine if rank != comm.rank)]
    seen = np.zeros(1, np.int64)
    reads = all(reaches(READ, pid, seen, there) and seen == number for pid, there, number in others)
    if not comm.gather_numbers([reads], what).all():
        return False
    writes = all(reaches(WRITE, pid, number, there) for pid, there, number in others)
    return bool(comm.gather_numbers([writes], what).all())


class PeerMemory:
    """This rank's share of a sum of private arrays (elements,), bound to memory. Local to make, collective to call.

    inputs: the (rank, slot) whose arrays this rank adds up, in the order of ``sums``.  numbers: (rank, slot) -> the
    array's place in the table of addresses that lies ``table`` bytes into the window.  sums, result, scratch: see
    ``sum_blocks``.
    """

    def __init__(self, window: SharedWindow, table: int, numbers: dict, inputs, sums, result: int, scratch,
                 elements: int):
        me, pids = window.ranks[window.me], dict(zip(window.ranks, window.pids.tolist()))
        pids[me] = 0
        later = window.ranks[window.me + 1:] + window.ranks[:window.me]  # not all at one rank first
        terms = np.array([(numbers[key], pids[key[0]]) for key in inputs], np.int64).reshape(-1, 2)
        targets = np.array([(numbers[rank, 0], pids[rank]) for rank in later], np.int64).reshape(-1, 2)
        segment = max(SMALLEST_SEGMENT, COPIES // max(1, len(terms))) // LINE * LINE
        copies = np.empty((len(terms), segment), np.uint8)
        places = np.array([row.ctypes.data for row in copies], np.int64)
        self._own = np.array([(number, 0) for key, number in numbers.items() if key[0] == me], np.int64)
        self._arguments = (terms, targets, window.address + table, self._own, sums, result, scratch, places, elements,
                           segment // scratch.itemsize, len(numbers))
        self.window, self._copies, self._known = window, copies, None

    def add_up(self, arrays, addresses) -> bool:
        """Sum into arrays[0] of each rank; or do nothing and return False, on all, where some array cannot be reached.

        addresses: the arrays'; the same object for the same arrays. Raises SilentPeer where a rank is gone.
        """
        if addresses is not self._known:
            self._own[:, 1] = addresses if all(map(attachable, arrays)) else 0
            self._known = addresses
        try:
            end = self.window.do(where_they_lie, *self._arguments)
            if end == LOST:
                self.window.fail(f"rank {self.window.ranks[self.window.me]} lost sight of another rank's memory")
        except BaseException:
            keep_for_ever(list(arrays))  # others may still read them, and write to them
            raise
        self.window.flag += 1 if end == UNATTACHABLE else EVENTS
        return end != UNATTACHABLE
