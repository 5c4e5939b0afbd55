"""Several arrays in few launches: what is done to each is what is done to it alone."""

import numpy as np
import pytest

from kernels.cuda import each_of_many
from kernels.each import add_each, aligned_each, copy_each, scaled_each

SHAPES = [(3, 4), (), (7,), (0, 2), (5,), (1,), (2, 2, 2), (9,), (4,), (6,), (1, 1)]


@each_of_many(own=3)
def write_number(place, number, factor, out):
    """Write a number that names the element."""
    out[place] = factor * (100 * number + place)


def draw(seed, dtype="float32"):
    random = np.random.default_rng(seed)
    return [np.asarray(random.normal(size=shape)).astype(dtype) for shape in SHAPES]


def test_each_element_of_each_array_is_met_once(gpu):
    arrays = [gpu.full(size, -1.0, np.float32) for size in (3, 0, 17, 1, 2, 5, 4, 9, 8, 6)]
    write_number([(array.size, number, np.float32(2), array) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        assert array.get().tolist() == [2.0 * (100 * number + place) for place in range(array.size)]


@pytest.mark.parametrize("idle", [0, 10, 2**20])
def test_arrays_of_unlike_sizes_and_kinds_are_launched_apart(gpu, monkeypatch, idle):
    monkeypatch.setattr("kernels.cuda.many.MOST_IDLE", idle)
    arrays = [gpu.zeros(size, dtype) for size, dtype in ((40, "f4"), (3, "f4"), (3, "f8"), (20, "f8"), (2, "f4"))]
    write_number([(array.size, number, array.dtype.type(1), array) for number, array in enumerate(arrays)])
    for number, array in enumerate(arrays):
        assert array.get().tolist() == [100 * number + place for place in range(array.size)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_copies_and_sums(gpu, dtype):
    ours, others = draw(1, dtype), draw(2, dtype)
    there, more = [[gpu.asarray(array) for array in arrays] for arrays in (ours, others)]
    add_each(there, more)
    assert all(np.array_equal(a.get(), b + c) for a, b, c in zip(there, ours, others))
    copy_each(there, more)
    assert all(np.array_equal(a.get(), b) for a, b in zip(there, others))
    host = [array.copy() for array in ours]
    add_each(host, others)
    assert all(np.array_equal(a, b + c) for a, b, c in zip(host, ours, others))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaled(gpu, dtype):
    arrays = draw(3, dtype)
    expected = [array * array.dtype.type(0.1) for array in arrays]
    for found in (scaled_each(arrays, 0.1), [a.get() for a in scaled_each([gpu.asarray(a) for a in arrays], 0.1)]):
        assert all(np.array_equal(a, b) and a.dtype == dtype for a, b in zip(found, expected, strict=True))


def test_views_with_gaps_are_copied_too(gpu):
    target, source = gpu.zeros((3, 4), np.float32), gpu.arange(12, dtype=np.float32).reshape(3, 4)
    copy_each([target[:, 1:3]], [source[:, :2]])
    assert target.get().tolist() == [[0, 0, 1, 0], [0, 4, 5, 0], [0, 8, 9, 0]]


def test_arrays_come_to_where_any_array_could_lie(gpu):
    arena = gpu.arange(200, dtype=np.float32)
    arrays = {"a": arena[:9].reshape(3, 3), "b": arena[9:30], "c": arena[30:31], "d": arena[64:70]}
    found = aligned_each(arrays | {"host": np.ones(3)[1:]})
    for name, array in arrays.items():
        assert found[name].get().tolist() == array.get().tolist() and found[name].shape == array.shape
        assert (found[name].data.ptr - found[name].data.mem.ptr) % 256 == 0
    assert found["a"] is arrays["a"] and found["d"] is arrays["d"] and found["b"] is not arrays["b"]


@pytest.mark.big
def test_few_launches(gpu, standin):
    there, more = [[gpu.asarray(array) for array in draw(seed)] for seed in (1, 2)]
    with standin.launching() as launches:
        add_each(there, more)
    assert launches.by_kind() == {"kernel": 2}
