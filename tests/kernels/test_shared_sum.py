"""Sums in a given order: fast and defined bits are equal, order matters, outputs may be inputs; flags and waits."""

import os
import time

import numpy as np
import pytest

from kernels.atomics import LINE, load_acquire, raise_flag, store_release, wait_for_all
from kernels.shared_sum import definition, fast, sum_in_order

SIZES = [0, 1, 5, 15, 16, 17, fast.BLOCK - 1, fast.BLOCK, fast.BLOCK + 1, 3 * fast.BLOCK + 7]
TREE = [(0, 1), (2, 3), (0, 2)]


def draw(count, elements, dtype):
    rng = np.random.default_rng((count, elements))
    exponents = rng.integers(-8, 8, (count, elements))
    with np.errstate(over="ignore"):
        values = rng.standard_normal((count, elements)) * 2.0**exponents * (1 if dtype[0] == "f" else 1e6)
        return [*values.astype(dtype)]


@pytest.mark.parametrize("dtype", fast.DTYPES)
@pytest.mark.parametrize("elements", SIZES)
def test_fast_sums_have_the_defined_bits_in_place(dtype, elements):
    for count, sums in ((1, []), (2, [(0, 1)]), (4, TREE), (5, [*TREE, (0, 4)]), (5, [(3, 4), (1, 3), (0, 1), (2, 0)])):
        plain, quick = draw(count, elements, dtype), draw(count, elements, dtype)
        register = sums[-1][0] if sums else 0
        for start, stop in ((0, elements), (elements // 3, elements - elements // 4)):
            definition.sum_in_order(plain, sums, [(register, plain[0])], start, stop)
            fast.sum_in_order(quick, sums, [(register, quick[0])], start, stop)
            assert [a.tobytes() for a in plain] == [a.tobytes() for a in quick]


def test_every_half_is_added_as_numpy_adds_it():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[~np.isnan(every)]
    for other in (0.0, -0.0, 1.0, -1e-7, 6e-8, 2049.0, 65504.0, -65504.0, np.inf):
        out = np.empty_like(every)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = every + np.float16(other)
        fast.sum_in_order([every, np.full_like(every, other)], [(0, 1)], [(0, out)], 0, len(every))
        number = ~np.isnan(expected)
        assert out[number].tobytes() == expected[number].tobytes() and np.isnan(out[~number]).all()


def test_integers_wrap_and_several_sums_are_written():
    for dtype in (np.int32, np.int64):
        big = np.full(3, np.iinfo(dtype).max, dtype)
        first, second = np.empty(3, dtype), np.empty(3, dtype)
        sum_in_order([big, np.ones(3, dtype), big], [(0, 1)], [(0, first), (2, second)], 0, 3)
        assert (first == np.iinfo(dtype).min).all() and (second == big).all()


def test_outputs_may_change_places():
    for elements in (3, 5000):
        a, b, c = (np.arange(elements) * k for k in (1, 2, 3))
        sum_in_order([a, b, c], [(0, 1)], [(2, a), (0, b)], 0, elements)
        assert (a == 3 * np.arange(elements)).all() and (b == 3 * np.arange(elements)).all()


def test_order_is_what_the_table_says():
    a, b, c = (np.full(4, x, np.float32) for x in (1e8, -1e8, 1.0))
    left, right = np.empty(4, np.float32), np.empty(4, np.float32)
    sum_in_order([a, b, c], [(0, 1), (0, 2)], [(0, left)], 0, 4)
    sum_in_order([a, b, c], [(1, 2), (0, 1)], [(0, right)], 0, 4)
    assert (left == 1).all() and (right == 0).all()


def test_four_terms_are_one_pass_where_the_order_allows_it():
    assert fast.fused(TREE, [0]).tolist() == [[0, 1, 2, 3]]
    eight = [*TREE, (4, 5), (6, 7), (4, 6), (0, 4)]
    assert fast.fused(eight, [0]).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [0, 4, -1, -1]]
    apart = [[0, 1, -1, -1], [2, 3, -1, -1], [0, 2, -1, -1]]
    assert fast.fused(TREE, [0, 2]).tolist() == apart, "register 2 is wanted"
    assert fast.fused([*TREE, (4, 2)], [0]).tolist()[:3] == apart, "register 2 is added later"
    assert fast.fused([(0, 1), (1, 2), (0, 1)], [0]).tolist()[0] == apart[0], "register 1 is read, then written"
    assert fast.fused([], [0]).shape == (0, 4)


@pytest.mark.parametrize("dtype", fast.DTYPES)
def test_every_way_of_fusing_has_the_defined_bits(dtype):
    eight = [*TREE, (4, 5), (6, 7), (4, 6), (0, 4)]
    for sums, kept in ((TREE, [0, 2]), ([*TREE, (4, 2)], [0, 4]), ([(0, 1), (1, 2), (0, 1)], [0]), (eight, [0])):
        count = 1 + max(register for pair in sums for register in pair)
        plain, quick = draw(count, 2077, dtype), draw(count, 2077, dtype)
        for module, arrays in ((definition, plain), (fast, quick)):
            module.sum_in_order(arrays, sums, [(register, arrays[register]) for register in kept], 3, 2070)
        assert [a.tobytes() for a in plain] == [a.tobytes() for a in quick]


def test_arrays_without_a_kernel_take_the_definition():
    out = np.zeros(6, np.float32)
    sum_in_order([np.ones(12, np.float32)[::2], np.ones(6, np.float32)], [(0, 1)], [(0, out)], 1, 6)
    assert out.tolist() == [0, 2, 2, 2, 2, 2]
    long = np.ones(3, np.complex64)
    sum_in_order([long, long], [(0, 1)], [(0, long)], 0, 3)
    assert (long == 2).all()


def flags(count):
    return np.zeros(count * LINE // 8 + LINE // 8, np.int64)


def test_a_wait_ends_when_all_are_there_or_time_is_up():
    memory = flags(3)
    address = memory.ctypes.data
    memory[: 3 * LINE // 8 : LINE // 8] = 7, 8, 9
    assert wait_for_all(address, 3, 7, 10, 10**7)
    begin = time.monotonic()
    assert not wait_for_all(address, 3, 8, 10, 20_000_000)
    assert 0.015 < time.monotonic() - begin < 30  # where others compute, too


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another process is needed that shares memory")
@pytest.mark.parametrize("value", [1, 2**32])  # a futex compares 32 bits
def test_a_sleeping_process_is_counted_and_woken(value):
    import mmap

    shared = mmap.mmap(-1, mmap.PAGESIZE)
    memory = np.frombuffer(shared, np.int64)
    flag, memory[0] = memory.ctypes.data, value - 1
    assert wait_for_all(flag, 1, value - 1, 1, 10**9)  # compile before the fork
    child = os.fork()
    if child == 0:
        os._exit(0 if wait_for_all(flag, 1, value, 1, 120 * 10**9) else 1)
    deadline = time.monotonic() + 60
    while memory[1] != 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    begin = time.monotonic()
    raise_flag(flag, value)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert time.monotonic() - begin < 60 and memory[:2].tolist() == [value, 0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="another process is needed that shares memory")
def test_stores_are_seen_by_another_process_in_order():
    import mmap

    from numba import njit

    @njit
    def produce(address, rounds):
        for value in range(1, rounds + 1):
            wait_for_all(address, 1, value - 1, 100, 10**9)  # flag 0: the consumer's
            store_release(address + 2 * LINE, 3 * value)
            raise_flag(address + LINE, value)

    @njit
    def consume(address, rounds):
        for value in range(1, rounds + 1):
            if not wait_for_all(address + LINE, 1, value, 100, 10**10) or load_acquire(address + 2 * LINE) != 3 * value:
                return value
            raise_flag(address, value)
        return 0

    shared = mmap.mmap(-1, mmap.PAGESIZE)
    address = np.frombuffer(shared, np.int64).ctypes.data
    produce(address, 0), consume(address, 0)  # compile before the fork
    child = os.fork()
    if child == 0:
        produce(address, 5000)
        os._exit(0)
    failed = consume(address, 5000)
    os.waitpid(child, 0)
    assert failed == 0
