"""Words that several processes read and write in shared memory: atomic loads and stores, and waiting, for Numba code.

A flag is an int64 that only grows, alone in its cache line, written by one process. What a process wrote before
``store_release`` of a flag is seen by whoever ``load_acquire``s that value of it (C11 memory model).
"""

import time

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.compiled import compiled

LINE = 64  # bytes of a cache line: two flags in one line would travel together between the cores
_WORD = ir.IntType(64)
_CLOCK = time.CLOCK_MONOTONIC if hasattr(time, "CLOCK_MONOTONIC") else 0

_sched_yield = types.ExternalFunction("sched_yield", types.int32())
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@intrinsic
def load_acquire(typingctx, address):
    """Return the int64 at ``address`` (a multiple of 8). Nothing that follows is read before it."""
    def generate(context, builder, signature, arguments):
        return builder.load_atomic(builder.inttoptr(arguments[0], _WORD.as_pointer()), "acquire", 8)

    return types.int64(address), generate


@intrinsic
def store_release(typingctx, address, value):
    """Write an int64 at ``address`` (a multiple of 8). Everything that precedes is written before it."""
    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _WORD.as_pointer())
        builder.store_atomic(context.cast(builder, arguments[1], signature.args[1], types.int64), place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, value), generate


@compiled
def _now():
    """Return a steady clock in nanoseconds."""
    clock = np.zeros(2, np.int64)
    _clock_gettime(_CLOCK, clock.ctypes.data)
    return clock[0] * 1_000_000_000 + clock[1]


@compiled
def wait_for_all(flags, count, value, spins, nanoseconds):
    """Wait until each of ``count`` flags is ``value`` or more; return False after about so many nanoseconds. Local.

    flags: address of the first; one every ``LINE`` bytes.  spins: how often to look before the core is offered to
    other processes: few where there are more ranks than cores.
    """
    for index in range(count):
        looks, deadline = 0, np.int64(0)
        while load_acquire(flags + index * LINE) < value:
            looks += 1
            if looks > spins:
                _sched_yield()
                if looks % 16 == 0:
                    if deadline == 0:
                        deadline = _now() + nanoseconds
                    elif _now() > deadline:
                        return False
    return True
