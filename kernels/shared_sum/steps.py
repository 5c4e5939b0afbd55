"""One rank's part in an allreduce through shared memory: one Numba call if no rank is late.

Each function is a list of steps: wait for the others' flags, do some work, raise the own flag. If a wait takes too
long, the function returns the number of the step. The caller checks whether the others are alive, and calls again with
this number. At the end the function returns ``DONE``.
"""

import numpy as np

from kernels.atomics import LINE, raise_flag, wait_for_all
from kernels.compiled import compiled
from kernels.shared_sum.fast import copy_bytes, sum_blocks

DONE = -1
BUFFERS = 3  # segments in flight: one is copied in, one summed, one copied out
EVENTS = 3  # of a segment: its parts are copied in, its sum is computed, the sum is copied out


@compiled
def in_place(step, flags, me, count, flag, spins, nanoseconds, inputs, sums, outputs, start, stop, scratch):
    """Sum elements [start, stop), this rank's share, over the arrays of all ranks. Flags grow from ``flag`` by 2.

    flags, count, spins, nanoseconds: see ``wait_for_all``.  me: this rank's flag.  The others: see ``sum_blocks``.
    """
    if step == 0:
        raise_flag(flags + me * LINE, flag + 1)
        step = 1
    if step == 1:
        if not wait_for_all(flags, count, flag + 1, spins, nanoseconds):
            return 1
        sum_blocks(inputs, sums, outputs, np.int64(0), start, stop, scratch)
        raise_flag(flags + me * LINE, flag + 2)
    return DONE if wait_for_all(flags, count, flag + 2, spins, nanoseconds) else 2


@compiled
def share_of(me, count, elements, size):
    """Return [start, stop), the share of rank ``me`` of ``count``. No two ranks write to one cache line."""
    line = LINE // size
    lines = -(-elements // line)
    return min(elements, me * lines // count * line), min(elements, (me + 1) * lines // count * line)


@compiled
def pipelined(step, flags, me, count, flag, spins, nanoseconds, inputs, sums, outputs, scratch,
              own, private, elements, segment, first, stride, free):
    """Sum private arrays through a ring of buffers, segment by segment, each while the next one is copied in.

    inputs, outputs: addresses in buffer 0; buffer b is b * stride bytes later.  own: (slots,) addresses of this rank's
    parts of segments in buffer 0.  private: (slots,) addresses of its arrays; the sum goes to the first.
    first: the number of segment 0, counted over all calls.  free: (BUFFERS,) the flag at which a buffer is free. Flags
    grow from ``flag`` by EVENTS * (segments + 1).
    """
    size, segments, terms = scratch.itemsize, -(-elements // segment), np.empty(len(inputs), np.int64)
    while step < EVENTS * (segments + 1):
        turn, event = step // EVENTS, step % EVENTS
        k = turn if event == 0 else turn - 1  # copy in segment ``turn``, then sum and copy out the previous one
        if 0 <= k < segments:
            buffer, at = (first + k) % BUFFERS, k * segment * size
            shift, length = buffer * stride, min(segment, elements - k * segment)
            start, stop = share_of(me, count, length, size)
            # in: all must have read what the buffer held; sum: all must be in; out: all shares must be summed
            needed = free[buffer] if event == 0 else flag + EVENTS * k + 1 if event == 1 else flag + EVENTS * turn + 2
            if not wait_for_all(flags, count, needed, spins, nanoseconds):
                return step
            if event == 0:
                for slot in range(len(own)):  # what this rank adds up itself stays where it is
                    here, there = own[slot] + shift, private[slot] + at
                    copy_bytes(here, there, start * size)
                    copy_bytes(here + stop * size, there + stop * size, (length - stop) * size)
            elif event == 1:
                for register in range(len(inputs)):
                    terms[register] = inputs[register]
                    for slot in range(len(own)):
                        if inputs[register] == own[slot]:
                            terms[register] = private[slot] + at - shift
                sum_blocks(terms, sums, outputs, shift, start, stop, scratch)
            else:
                copy_bytes(private[0] + at, outputs[0, 1] + shift, length * size)
                free[buffer] = flag + step + 1
            raise_flag(flags + me * LINE, flag + step + 1)
        step += 1
    raise_flag(flags + me * LINE, flag + step)
    return DONE


@compiled
def all_at_once(step, flags, me, count, flag, spins, nanoseconds, inputs, sums, outputs, scratch,
                own, given, target, elements, first, stride, free):
    """Sum short arrays: each rank copies its own in, waits for all, and adds up all arrays. There is one wait per call.

    given: (slots,) addresses of this rank's arrays.  target: address of its sum.  The others: as for ``pipelined``,
    with one segment. Flags grow from ``flag`` by 1: a rank that begins the next call has read the buffer of this one.
    """
    size, buffer = scratch.itemsize, first % BUFFERS
    shift = buffer * stride
    if step == 0:
        if not wait_for_all(flags, count, free[buffer], spins, nanoseconds):
            return 0
        for slot in range(len(own)):
            copy_bytes(own[slot] + shift, given[slot], elements * size)
        raise_flag(flags + me * LINE, flag + 1)
    if not wait_for_all(flags, count, flag + 1, spins, nanoseconds):
        return 1
    result = np.empty((1, 2), np.int64)
    result[0, 0], result[0, 1] = outputs[0, 0], target - shift
    sum_blocks(inputs, sums, result, shift, np.int64(0), elements, scratch)
    free[buffer] = flag + 2
    return DONE


@compiled
def reach(step, flags, me, count, flag, spins, nanoseconds, waits):
    """Raise this rank's flag to ``flag``; with ``waits``, wait until all have. A barrier if all ranks wait."""
    if step == 0:
        raise_flag(flags + me * LINE, flag)
    return DONE if not waits or wait_for_all(flags, count, flag, spins, nanoseconds) else 1
