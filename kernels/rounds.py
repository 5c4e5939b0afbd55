"""Rounds of messages and sums in one compiled call. It calls the functions that move messages by their addresses.

    round 0    start its messages, test until they are complete, add up
    round 1    the same, and so on

Between these calls Python needs microseconds, which count if a message is short.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kernels.atomics import now, yield_core
from kernels.compiled import compiled
from kernels.shared_sum.fast import add_two

HEADER, ROUND, SUM = 5, 4, 3
_START, _TEST, _STATUSES, RESULT, _ROUNDS = range(HEADER)


def table_of(start: int, test: int, statuses: int, rounds) -> np.ndarray:
    """Return rounds as a vector of int64, for ``run_rounds``. Local.

    start, test: addresses of C functions: ``int start(int count, void *requests)`` and ``int test(int count, void
    *requests, int *complete, void *statuses)``. They return 0 unless they fail.  statuses: an address for ``test``.
    rounds: (number of requests, address of the first one, sums), with sums (into, other, elements): two addresses.
    """
    rows, sums, first = [], [], HEADER + ROUND * len(rounds)
    for count, requests, added in rounds:
        rows += [count, requests, first + len(sums), first + len(sums) + SUM * len(added)]
        sums += [number for one in added for number in one]
    return np.array([start, test, statuses, 0, len(rounds), *rows, *sums], np.int64)


@intrinsic
def _start(typingctx, function, count, requests):
    """Return ``function(count, requests)`` of the C function at this address."""
    return types.int32(function, count, requests), _call


@intrinsic
def _test(typingctx, function, count, requests, complete, statuses):
    """Return ``function(count, requests, complete, statuses)`` of the C function at this address."""
    return types.int32(function, count, requests, complete, statuses), _call


def _call(context, builder, signature, values):
    """Call a C function with an int and addresses, in LLVM."""
    function, count, *addresses = values
    number = ir.IntType(32)
    kind = ir.FunctionType(number, [number, *(address.type for address in addresses)])
    return builder.call(builder.inttoptr(function, kind.as_pointer()), [builder.trunc(count, number), *addresses])


@compiled
def run_rounds(table, first, started, nanoseconds, like):
    """Run rounds from ``first`` on, and return the number of complete ones. Collective over senders and receivers.

    table: see ``table_of``.  started: whether the messages of round ``first`` are under way.  like: an array with the
    dtype of the sums.  It returns when the messages of a round are not complete after ``nanoseconds``. Between two
    tests it yields the core. If a function fails, it returns -1, and table[RESULT] is what the function returned.
    """
    complete = table.ctypes.data + RESULT * 8
    for at in range(first, table[_ROUNDS]):
        place, end, failed = HEADER + ROUND * at, np.int64(0), np.int32(0)
        count, requests = table[place], table[place + 1]
        if count and (at > first or not started):
            failed = _start(table[_START], count, requests)
        while count:
            table[RESULT] = 0
            if not failed:
                failed = _test(table[_TEST], count, requests, complete, table[_STATUSES])
            if failed:
                table[RESULT] = failed
                return -1
            if table[RESULT]:
                break
            clock = now()
            if end == 0:
                end = clock + nanoseconds
            if clock >= end:
                return at
            yield_core()
        for add in range(table[place + 2], table[place + 3], SUM):
            add_two(table[add], table[add], table[add + 1], table[add + 2], like)
    return table[_ROUNDS]
