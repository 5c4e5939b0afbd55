"""Atomic loads and stores in memory that several processes share, and waiting, for Numba code.

A flag is an int64 that only grows and that one process writes. A process that reads a value of the flag by
``load_acquire`` sees everything that was written before ``raise_flag`` (C11 memory model). The cache line of a flag
also holds the number of processes that sleep until it grows (Linux: futex), and nothing else. If no process sleeps,
raising the flag needs no system call.
"""

import platform
import sys
import time

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.compiled import compiled

LINE = 64  # bytes of a cache line: two flags in one line would move together between cores
YIELDS = 4
"""How often a waiting process yields its core before it sleeps. A few yields are the fastest way to another rank on the
same core. But Linux 6.18 then gives the core to any third process for milliseconds.
"""
_SLEEPERS = 8  # bytes from a flag to the number of its sleepers; a sleeper that dies costs only system calls
_FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if sys.platform == "linux" else 0
_WAIT, _WAKE, _EVERYONE = 0, 1, (1 << 31) - 1
_NAP = 50_000  # nanoseconds of sleep without futex
_WORD = ir.IntType(64)
_CLOCK = time.CLOCK_MONOTONIC if hasattr(time, "CLOCK_MONOTONIC") else 0

yield_core = types.ExternalFunction("sched_yield", types.int32())
_nanosleep = types.ExternalFunction("nanosleep", types.int32(types.uintp, types.uintp))
syscall = types.ExternalFunction("syscall", types.int64(*[types.int64] * 7))
_clock_gettime = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))


@intrinsic
def load_acquire(typingctx, address):
    """Return the int64 at ``address`` (a multiple of 8). All later reads happen after it."""
    def generate(context, builder, signature, arguments):
        return builder.load_atomic(builder.inttoptr(arguments[0], _WORD.as_pointer()), "acquire", 8)

    return types.int64(address), generate


@intrinsic
def store_release(typingctx, address, value):
    """Write an int64 at ``address`` (a multiple of 8). All earlier writes happen before it."""
    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _WORD.as_pointer())
        builder.store_atomic(context.cast(builder, arguments[1], signature.args[1], types.int64), place, "release", 8)
        return context.get_dummy_value()

    return types.void(address, value), generate


@intrinsic
def _add_to(typingctx, address, value):
    """Add to the int64 at ``address``. All earlier accesses happen before it, all later ones after it."""
    def generate(context, builder, signature, arguments):
        place = builder.inttoptr(arguments[0], _WORD.as_pointer())
        builder.atomic_rmw("add", place, context.cast(builder, arguments[1], signature.args[1], types.int64), "seq_cst")
        return context.get_dummy_value()

    return types.void(address, value), generate


@intrinsic
def _fence(typingctx):
    """All earlier accesses happen before all later ones."""
    def generate(context, builder, signature, arguments):
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@compiled
def raise_flag(flag, value):
    """Write the flag at address ``flag``, as ``store_release`` does, and wake the processes that sleep for it."""
    store_release(flag, value)
    _fence()  # a sleeper counts itself, then reads the flag: so one of the two sees the other
    if load_acquire(flag + _SLEEPERS) > 0:
        syscall(_FUTEX, flag, _WAKE, _EVERYONE, 0, 0, 0)


@compiled
def _sleep(flag, seen, nanoseconds):
    """Sleep until the flag differs from ``seen``, or for about ``nanoseconds``."""
    length = np.zeros(2, np.int64)
    length[0], length[1] = nanoseconds // 1_000_000_000, nanoseconds % 1_000_000_000
    if _FUTEX:
        _add_to(flag + _SLEEPERS, 1)
        syscall(_FUTEX, flag, _WAIT, seen & 0xFFFFFFFF, length.ctypes.data, 0, 0)
        _add_to(flag + _SLEEPERS, -1)
    else:
        length[0], length[1] = 0, _NAP
        _nanosleep(length.ctypes.data, 0)


@compiled
def now():
    """Return a steady clock in nanoseconds."""
    clock = np.zeros(2, np.int64)
    _clock_gettime(_CLOCK, clock.ctypes.data)
    return clock[0] * 1_000_000_000 + clock[1]


@compiled
def wait_for_all(flags, count, value, spins, nanoseconds):
    """Wait until each of ``count`` flags is at least ``value``; return False after about ``nanoseconds``. Local.

    flags: address of the first flag; there is one every ``LINE`` bytes.  spins: how often to read a flag before the
    core is offered to other processes. Use few if there are more ranks than cores.
    """
    deadline = np.int64(0)
    for index in range(count):
        flag, looks = flags + index * LINE, 0
        seen = load_acquire(flag)
        while seen < value:
            looks += 1
            if looks > spins + YIELDS:
                clock = now()
                if deadline == 0:
                    deadline = clock + nanoseconds
                if clock >= deadline:
                    return False
                _sleep(flag, seen, deadline - clock)
            elif looks > spins:
                yield_core()
            seen = load_acquire(flag)
    return True


@compiled
def wait_for_number(flag, number, spins, nanoseconds):
    """Wait as ``wait_for_all`` does for one flag; return whether it is exactly ``number``. Local."""
    return wait_for_all(flag, 1, number, spins, nanoseconds) and load_acquire(flag) == number
