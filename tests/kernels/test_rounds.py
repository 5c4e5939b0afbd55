"""Rounds in one compiled call, over functions in Python instead of MPI's."""

import ctypes

import numpy as np
import pytest

from kernels.rounds import RESULT, run_rounds, table_of
from kernels.shared_sum.fast import computable

START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
TEST = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.c_void_p)
REQUESTS = 4096
"""The address of the requests, which only MPI would read."""


class Messages:
    """C functions that log their calls. tests[i]: how many tests the i-th round needs until it is complete."""

    def __init__(self, tests, start_fails=0, test_fails=0):
        self.log, self.tests = [], list(tests)

        def start(count, requests):
            self.log.append(("start", count, requests))
            return start_fails

        def test(count, requests, complete, statuses):
            self.log.append(("test", count, requests))
            self.tests[0] -= 1
            complete[0] = self.tests[0] <= 0
            if complete[0]:
                self.tests.pop(0)
            return test_fails

        self.kept = START(start), TEST(test)
        self.addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in self.kept]


def _table(messages, rounds):
    return table_of(*messages.addresses, 0, [
        (count, REQUESTS + at, [(into.ctypes.data, other.ctypes.data, into.size) for into, other in sums])
        for at, (count, sums) in enumerate(rounds)])


@pytest.mark.parametrize("elements", [0, 1, 17, 1001])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
def test_rounds_follow_each_other_and_add_as_numpy_does(dtype, elements):
    a, b, c = ((np.random.default_rng(seed).standard_normal(elements) * 1000).astype(dtype) for seed in range(3))
    expected, messages = (a + b) + c, Messages([1, 3])
    table = _table(messages, [(2, [(a, b)]), (0, []), (1, [(a, c)])])
    assert run_rounds(table, 0, False, 10**9, np.empty(0, computable(np.dtype(dtype)))) == 3
    assert a.tobytes() == expected.tobytes()
    assert messages.log == [("start", 2, REQUESTS), ("test", 2, REQUESTS), ("start", 1, REQUESTS + 2),
                            *[("test", 1, REQUESTS + 2)] * 3]


def test_it_returns_in_time_and_goes_on_where_it_was():
    a, b, messages = np.ones(3), np.ones(3), Messages([1, 3])
    table, like = _table(messages, [(1, [(a, b)]), (1, [(a, b)])]), a[:0]
    assert run_rounds(table, 0, False, 0, like) == 1 and a.tolist() == [2.0] * 3
    assert run_rounds(table, 1, True, 0, like) == 1 and a.tolist() == [2.0] * 3
    assert run_rounds(table, 1, True, 0, like) == 2 and a.tolist() == [3.0] * 3
    assert [what for what, *_ in messages.log] == ["start", "test", "start", "test", "test", "test"]


@pytest.mark.parametrize("fails, log", [({"start_fails": 7}, ["start"]), ({"test_fails": 7}, ["start", "test"])])
def test_a_failure_is_returned_and_nothing_is_added(fails, log):
    a, messages = np.ones(3), Messages([1], **fails)
    table = _table(messages, [(1, [(a, a.copy())])])
    assert run_rounds(table, 0, False, 10**9, a[:0]) == -1 and table[RESULT] == 7
    assert [what for what, *_ in messages.log] == log and a.tolist() == [1.0] * 3
