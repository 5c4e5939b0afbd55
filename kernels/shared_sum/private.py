"""One rank's part in an allreduce of arrays in the private memory of the ranks of one machine.

    private arrays of ranks 0 1 2 3            rank 1 reads b0 b2 b3 into its cache, a segment at a time, adds up B,
    |a0 b0 c0 d0| ... |a3 b3 c3 d3|            and writes B over b0 b1 b2 b3, which are in its core's cache

So no cache line moves from core to core through a buffer, and ranks wait for each other only at the start and at the
end. A pipeline through shared memory is slower if cores are far apart, or if there are fewer cores than ranks.
"""

import numpy as np

from kernels.atomics import LINE, load_acquire, raise_flag, store_release, wait_for_all
from kernels.compiled import compiled
from kernels.cross_memory import READ, WRITE, transfer
from kernels.shared_sum.fast import sum_blocks
from kernels.shared_sum.steps import DONE, share_of

UNATTACHABLE = -2  # other ranks cannot read a rank's array; no rank has computed anything
LOST = -3  # during the sum the memory of another process could no longer be read or written
EVENTS = 2  # all ranks have posted their arrays' addresses; all ranks have all sums
_WORD = 8


@compiled
def where_they_lie(step, flags, me, count, flag, spins, nanoseconds, terms, targets, posted, own, sums, result, scratch,
                   copies, elements, segment, arrays):
    """Sum private arrays (elements,) into slot 0 of each rank. Returns a step, DONE, UNATTACHABLE or LOST.

    terms: (k, 2), for each register the number of its array among those of all ranks, and its process, 0: this one.
    targets: (count - 1, 2), the same for the other ranks' slots 0.  posted: address of the addresses of all ``arrays``.
    own: (slots, 2), number and address of this rank's arrays; address 0 if others cannot read it.  result: register.
    copies: (k,) addresses of memory for one segment each.  The others: see ``sum_blocks``. Flags grow by EVENTS.
    """
    if step == 0:
        for slot in range(len(own)):
            store_release(posted + own[slot, 0] * _WORD, own[slot, 1])
        raise_flag(flags + me * LINE, flag + 1)
        step = 1
    if step == 1:
        if not wait_for_all(flags, count, flag + 1, spins, nanoseconds):
            return 1
        for number in range(arrays):
            if load_acquire(posted + number * _WORD) == 0:
                return UNATTACHABLE
        start, stop = share_of(me, count, elements, scratch.itemsize)
        for first in range(start, stop, segment):
            length = min(segment, stop - first)
            if not _sum_segment(terms, targets, posted, own, sums, result, scratch, copies, first, length):
                return LOST
        raise_flag(flags + me * LINE, flag + 2)
    return DONE if wait_for_all(flags, count, flag + 2, spins, nanoseconds) else 2


@compiled
def _sum_segment(terms, targets, posted, own, sums, result, scratch, copies, first, length):
    """Add up elements [first, first + length) of all arrays into all slots 0; return False if a process has ended."""
    at, nbytes = first * scratch.itemsize, length * scratch.itemsize
    inputs, outputs, words = np.empty(len(terms), np.int64), np.empty((1, 2), np.int64), np.empty(4, np.int64)
    for j in range(len(terms)):
        inputs[j] = load_acquire(posted + terms[j, 0] * _WORD) + at
        if terms[j, 1]:
            if not transfer(np.int64(READ), terms[j, 1], copies[j], inputs[j], nbytes, words):
                return False
            inputs[j] = copies[j]
    outputs[0, 0], outputs[0, 1] = result, own[0, 1] + at
    sum_blocks(inputs, sums, outputs, np.int64(0), np.int64(0), length, scratch)
    for j in range(len(targets)):
        there = load_acquire(posted + targets[j, 0] * _WORD) + at
        if not transfer(np.int64(WRITE), targets[j, 1], outputs[0, 1], there, nbytes, words):
            return False
    return True
