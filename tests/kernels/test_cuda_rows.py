"""Row gradients on a GPU hold the definitions' bits, wherever the row numbers are, and wait only where they must."""

import numpy as np
import pytest
from test_rows import draw

from kernels.rows import RowGradient, aggregate_rows, definition, merge_rows, rows_between, take_rows, unique_ids

SHAPES = [(0, 3, 5), (1, 1, 1), (7, 3, 1), (50, 7, 4), (60, 17, 1000),
          pytest.param(41, 33, 7, marks=pytest.mark.big), (5, 0, 3)]


def assert_same(result, expected):
    ids = result.ids if isinstance(result.ids, np.ndarray) else result.ids.get()
    assert not isinstance(result.rows, np.ndarray)
    rows = result.rows.get()
    assert ids.dtype == np.int64 and rows.dtype == expected.rows.dtype and rows.shape == expected.rows.shape
    assert ids.tobytes() == expected.ids.tobytes() and rows.tobytes() == expected.rows.tobytes()


def placed(gpu, gradient, on_gpu):
    return RowGradient(gpu.asarray(gradient.ids) if on_gpu else gradient.ids, gpu.asarray(gradient.rows))


@pytest.mark.parametrize("dtype, on_gpu", [("float32", False), ("float32", True), ("float64", True)])
@pytest.mark.parametrize("count, width, vocabulary", SHAPES)
def test_aggregate_holds_the_definition(gpu, count, width, vocabulary, dtype, on_gpu):
    ids, rows = draw("aggregate", count, width, vocabulary, dtype)
    result = aggregate_rows(gpu.asarray(ids) if on_gpu else ids, gpu.asarray(rows))
    assert isinstance(result.ids, np.ndarray) != on_gpu
    assert_same(result, definition.aggregate_rows(ids, rows))


@pytest.mark.parametrize("lengths, width, on_gpu", [
    ((4,), 1, False), ((3, 5, 4, 1), 5, True), ((1, 23, 2, 13), 9, False)])
def test_long_segments_hold_the_definition(gpu, monkeypatch, lengths, width, on_gpu):
    """Of more than 3 rows: fetched tile by tile, on a GPU and in the simulator."""
    monkeypatch.setattr("kernels.rows.cuda_segments.LONG", 3)
    _, rows = draw("long", sum(lengths), width, 1)
    ids = np.random.default_rng(1).permutation(np.repeat(7 * np.arange(len(lengths)), lengths))
    result = aggregate_rows(gpu.asarray(ids) if on_gpu else ids, gpu.asarray(rows))
    assert_same(result, definition.aggregate_rows(ids, rows))


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("top", [2**31 + 11, 2**53 + 1, 2**63 - 1])
def test_ids_of_any_size_stay_apart(gpu, top, on_gpu):
    ids = np.array([top, 0, top - 1, top, 2, top - 2**10, 0, -1], np.int64)
    rows = np.arange(16, dtype=np.float32).reshape(8, 2)
    expected = definition.aggregate_rows(ids, rows)
    ids = gpu.asarray(ids) if on_gpu else ids
    assert_same(aggregate_rows(ids, gpu.asarray(rows)), expected)
    found = unique_ids(ids)
    assert (found if isinstance(found, np.ndarray) else found.get()).tolist() == expected.ids.tolist()


@pytest.mark.parametrize("left, right, on_gpu", [
    (0, 0, False), (0, 9, True), (9, 0, False), (40, 40, True), (70, 20, False)])
@pytest.mark.parametrize("vocabulary", [50, 3_000_000_000])
def test_merge_holds_the_definition(gpu, left, right, vocabulary, on_gpu):
    a, b = (definition.aggregate_rows(*draw(n, c, 5, vocabulary)) for n, c in (("a", left), ("b", right)))
    ours = [placed(gpu, one, on_gpu) for one in (a, b)]
    assert_same(merge_rows(*ours), definition.merge_rows(a, b))
    assert_same(merge_rows(*ours[::-1]), definition.merge_rows(a, b))  # addition commutes to the bit


@pytest.mark.parametrize("width", [1, 2, 4, 11])
def test_rows_of_any_width(gpu, width):
    a, b = (definition.aggregate_rows(*draw(n, 20, width, 25)) for n in "ab")
    ours = [placed(gpu, one, False) for one in (a, b)]
    assert_same(merge_rows(*ours), definition.merge_rows(a, b))
    assert take_rows(ours[0].rows, np.array([3, 0, 3])).get().tobytes() == a.rows[[3, 0, 3]].tobytes()


@pytest.mark.parametrize("on_gpu", [False, True])
@pytest.mark.parametrize("ids", [[5, 3], [3, 3]])
def test_merge_refuses_ids_that_do_not_increase(gpu, ids, on_gpu):
    bad, good = (RowGradient(np.array(some, np.int64), np.ones((len(some), 2), np.float32)) for some in (ids, [4]))
    for pair in ((bad, good), (good, bad)):
        with pytest.raises(ValueError, match="aggregate_rows"):
            merge_rows(*(placed(gpu, one, on_gpu) for one in pair))


def test_a_row_that_occurs_once_keeps_its_bits(gpu):
    rows = np.array([[-0.0, np.nan, np.inf, 1e-45], [1.0, 2.0, 3.0, 4.0]], np.float32)
    rows.view(np.uint32)[0, 1] |= 0x1234  # the payload of the NaN is copied too
    result = aggregate_rows(np.array([9, 4]), gpu.asarray(rows))
    assert result.rows.get().tobytes() == rows[::-1].tobytes()
    other = RowGradient(np.array([5]), gpu.ones((1, 4), np.float32))
    assert merge_rows(result, other).rows[2].get().tobytes() == rows[0].tobytes()


def test_a_row_of_minus_zeros_that_repeats_stays_minus_zero(gpu):
    rows = gpu.asarray(np.full((3, 2), -0.0, np.float32))
    assert np.signbit(aggregate_rows(np.array([1, 1, 1]), rows).rows.get()).all()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_take_rows_copies_and_refuses_ids_out_of_range(gpu, on_gpu):
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    table, place = gpu.asarray(host), gpu.asarray if on_gpu else np.asarray
    taken = take_rows(table, place(np.array([3, 0, 3])))
    assert taken.get().tobytes() == host[[3, 0, 3]].tobytes()
    assert take_rows(table, place(np.empty(0, np.int64))).shape == (0, 3)
    assert take_rows(table[:, 1:], np.array([2])).get().tolist() == [[7, 8]]
    for bad in (-1, 4, 2**32):
        with pytest.raises(IndexError, match="4 rows"):
            take_rows(table, place(np.array([1, bad])))


@pytest.mark.parametrize("on_gpu", [False, True])
def test_rows_between_cuts_views(gpu, on_gpu):
    whole = aggregate_rows(*draw("cut", 40, 3, 90))
    gradient = placed(gpu, whole, on_gpu)
    for low, high in ((0, 1), (1, 30), (30, 30), (61, 90)):
        assert_same(rows_between(gradient, low, high), rows_between(whole, low, high))


def test_strided_rows_are_the_same_rows(gpu):
    ids, rows = draw("strided", 60, 10, 40)
    expected = definition.aggregate_rows(ids[::2], rows[::2, ::3])
    assert_same(aggregate_rows(ids[::2], gpu.asarray(rows)[::2, ::3]), expected)


def test_with_ids_on_the_host_nothing_waits_for_the_gpu(gpu):
    standin = gpu.__dict__.get("standin") or pytest.skip("only the stand-in counts transfers")
    (ids, rows), (more, others) = draw("a", 30, 4, 20), draw("b", 20, 4, 20)
    rows, others = gpu.asarray(rows), gpu.asarray(others)
    with standin.counting() as count:
        merged = merge_rows(aggregate_rows(ids, rows), aggregate_rows(more, others))
        take_rows(merged.rows, np.array([0, 1]))
    assert [one.kind for one in count.all] == ["to_device"] * 4
