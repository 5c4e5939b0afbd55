"""Add up long arrays of one machine's ranks in place, in the ranks' private memory, if the host allows it.

A sum through shared memory must wait for the other ranks at each segment, and moves each line of memory from core to
core. Here ranks meet only twice a call, but the system copies page by page. A trial finds out whether the host allows
it: containers and Yama may not.
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

LONG = 256 << 10  # bytes of a vector from which on this may be faster than a pipeline through shared memory
COPIES = 1 << 20  # bytes of a segment of all arrays: about a core's cache; with less, system calls cost too much
SMALLEST_SEGMENT = 16 << 10
_found: WeakKeyDictionary[ArrayExchange, bool] = WeakKeyDictionary()


def ranks_reach_each_other(comm: ArrayExchange) -> bool:
    """Return whether the ranks of each machine can read and write each other's memory. One trial. Collective."""
    if comm not in _found:
        _found[comm] = _tried(comm)
    return _found[comm]


def _tried(comm):
    """Read a secret number in every other rank's memory. Only if all find the right one, write it back."""
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
    """This rank's share of a sum of private arrays (elements,). The constructor is local, ``add_up`` is collective.

    inputs: the (rank, slot) whose arrays this rank adds up, in the order of ``sums``.  numbers: (rank, slot) -> the
    array's index in the table of addresses, which begins ``table`` bytes into the window.  sums, result, scratch: see
    ``sum_blocks``.
    """

    def __init__(self, window: SharedWindow, table: int, numbers: dict, inputs, sums, result: int, scratch,
                 elements: int):
        me, pids = window.ranks[window.me], dict(zip(window.ranks, window.pids.tolist()))
        pids[me] = 0
        later = window.ranks[window.me + 1:] + window.ranks[:window.me]  # not all from one rank
        terms = np.array([(numbers[key], pids[key[0]]) for key in inputs], np.int64).reshape(-1, 2)
        targets = np.array([(numbers[rank, 0], pids[rank]) for rank in later], np.int64).reshape(-1, 2)
        segment = max(SMALLEST_SEGMENT, COPIES // max(1, len(terms))) // LINE * LINE
        copies = np.empty((len(terms), segment), np.uint8)
        places = np.array([row.ctypes.data for row in copies], np.int64)
        self._own = np.array([(number, 0) for key, number in numbers.items() if key[0] == me], np.int64)
        self._arguments = (terms, targets, window.address + table, self._own, sums, result, scratch, places, elements,
                           segment // scratch.itemsize, len(numbers))
        self.window, self._copies, self._known, self._reached = window, copies, None, False

    def add_up(self, arrays, addresses, willing: bool = True) -> bool:
        """Sum into arrays[0] of each rank. If any array cannot be reached, do nothing and return False on all ranks.

        addresses: of the arrays; the same object for the same arrays.  willing: False counts as if these arrays could
        not be reached. Raises SilentPeer if a rank has ended.
        """
        if addresses is not self._known:
            self._reached, self._known = all(map(attachable, arrays)), addresses
        self._own[:, 1] = addresses if willing and self._reached else 0
        try:
            end = self.window.do(where_they_lie, *self._arguments)
            if end == LOST:
                self.window.fail(f"rank {self.window.ranks[self.window.me]} can no longer reach another rank's memory")
        except BaseException:
            keep_for_ever(list(arrays))  # others may still read and write them
            raise
        self.window.flag += 1 if end == UNATTACHABLE else EVENTS
        return end != UNATTACHABLE
