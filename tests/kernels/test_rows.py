"""Row gradients: the fast versions hold the definitions' bits, and the definitions mean what they say."""

import numpy as np
import pytest

from kernels.random import key_of, uniform
from kernels.rows import RowGradient, aggregate_rows, definition, fast, merge_rows, rows_between, take_rows, unique_ids


def draw(name, count, width, vocabulary, dtype="float32"):
    """Return (ids, rows) with repeats and with signs and magnitudes that make the order of a sum visible."""
    ids = (uniform(key_of("ids", name), count) * vocabulary).astype(np.int64)
    u = uniform(key_of("rows", name), count * width).reshape(count, width) - 0.5
    return ids, (u * 2.0 ** np.round(40 * u)).astype(dtype)


def assert_same(result, expected):
    assert result.ids.dtype == np.int64 and result.rows.dtype == expected.rows.dtype
    assert result.rows.shape == expected.rows.shape
    assert result.ids.tobytes() == expected.ids.tobytes()
    assert result.rows.tobytes() == expected.rows.tobytes()


def sum_in_order(ids, rows):
    """Sum rows by the textbook loop: one id after another, one row after another."""
    unique = sorted(set(ids.tolist()))
    total = np.empty((len(unique), rows.shape[1]), rows.dtype)
    for j, name in enumerate(unique):
        places = np.flatnonzero(ids == name)
        total[j] = rows[places[0]]
        for place in places[1:]:
            total[j] = total[j] + rows[place]
    return RowGradient(np.array(unique, np.int64), total)


SHAPES = [(0, 3, 5), (1, 1, 1), (7, 3, 1), (50, 7, 4), (257, 17, 1000), (1000, 1, 50), (333, 128, 300), (5, 0, 3)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count, width, vocabulary", SHAPES)
def test_aggregate_is_the_sum_in_order_of_occurrence(count, width, vocabulary, dtype):
    ids, rows = draw("aggregate", count, width, vocabulary, dtype)
    expected = sum_in_order(ids, rows)
    assert_same(definition.aggregate_rows(ids, rows), expected)
    assert_same(fast.aggregate_rows(ids, rows), expected)
    assert_same(aggregate_rows(ids, rows), expected)


def test_the_order_of_occurrence_shows_in_the_bits():
    ids, rows = draw("order", 300, 5, 7)
    turned = fast.aggregate_rows(ids[::-1].copy(), rows[::-1].copy())
    assert turned.rows.tobytes() != fast.aggregate_rows(ids, rows).rows.tobytes()


@pytest.mark.parametrize("count", [0, 1, 6, 1000])
@pytest.mark.parametrize("low, span", [(0, 1), (0, 50), (-7, 2**12), (2**31 - 5, 10), (-(2**63), 2**64 - 1)])
def test_unique_ids_are_a_sorted_set(count, low, span):
    random = key_of("unique", count, low, span)
    ids = np.array([low + int(u * span) for u in uniform(random, count)], np.int64)
    expected = sorted(set(ids.tolist()))
    for result in (definition.unique_ids(ids), fast.unique_ids(ids), unique_ids(ids[::-1])):
        assert result.dtype == np.int64 and result.tolist() == expected


@pytest.mark.parametrize("top", [2**11, 2**22 + 3, 2**31 + 11, 2**53 + 1, 2**63 - 1])
def test_ids_of_any_size_stay_apart(top):
    ids = np.array([top, 0, top - 1, top, 2, top - 2**10, 0], np.int64)
    rows = np.arange(14, dtype=np.float32).reshape(7, 2)
    assert_same(fast.aggregate_rows(ids, rows), sum_in_order(ids, rows))


def test_negative_ids_sort_below_positive_ones():
    ids = np.array([3, -(2**63), 2**63 - 1, -1, 3, -1], np.int64)
    rows = np.arange(6, dtype=np.float64).reshape(6, 1)
    assert_same(fast.aggregate_rows(ids, rows), sum_in_order(ids, rows))


def test_a_row_that_occurs_once_keeps_its_bits():
    rows = np.array([[-0.0, np.nan, np.inf, 1e-45], [1.0, 2.0, 3.0, 4.0]], np.float32)
    rows.view(np.uint32)[0, 1] |= 0x1234  # the payload of the NaN is copied too
    result = fast.aggregate_rows(np.array([9, 4]), rows)
    assert result.rows.tobytes() == rows[::-1].tobytes()
    other = RowGradient(np.array([5]), np.ones((1, 4), np.float32))
    merged = merge_rows(other, result)
    assert merged.ids.tolist() == [4, 5, 9] and merged.rows[2].tobytes() == rows[0].tobytes()
    assert merge_rows(result, other).rows.tobytes() == merged.rows.tobytes()


def test_a_row_of_minus_zeros_that_repeats_stays_minus_zero():
    rows = np.full((3, 2), -0.0, np.float32)
    assert np.signbit(fast.aggregate_rows(np.array([1, 1, 1]), rows).rows).all()


def test_strided_and_narrow_integer_input_is_the_same_input():
    ids, rows = draw("strided", 200, 10, 40)
    expected = sum_in_order(ids[::2], rows[::2, ::3])
    assert_same(aggregate_rows(ids[::2], rows[::2, ::3]), expected)
    assert_same(aggregate_rows(ids[::2].astype(np.int32), rows[::2, ::3]), expected)


def test_alignment_does_not_move_the_bits():
    ids, rows = draw("alignment", 100, 33, 20)
    room = np.empty(rows.size + 16, np.float32)
    for offset in range(16):
        shifted = room[offset : offset + rows.size].reshape(rows.shape)
        shifted[...] = rows
        assert_same(fast.aggregate_rows(ids, shifted), fast.aggregate_rows(ids, rows))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left, right", [(0, 0), (0, 9), (9, 0), (1, 1), (40, 40), (300, 20), (20, 300)])
@pytest.mark.parametrize("vocabulary", [50, 3_000_000_000])
def test_merge_holds_the_definition(left, right, vocabulary, dtype):
    a, b = (definition.aggregate_rows(*draw(n, c, 5, vocabulary, dtype)) for n, c in (("a", left), ("b", right)))
    assert_same(fast.merge_rows(a, b), definition.merge_rows(a, b))
    assert_same(merge_rows(b, a), definition.merge_rows(b, a))
    assert_same(merge_rows(b, a), merge_rows(a, b))  # addition commutes to the bit


def test_merge_adds_left_and_right():
    left = RowGradient(np.array([1, 4]), np.array([[1.0], [2.0]]))
    right = RowGradient(np.array([0, 4, 6]), np.array([[10.0], [20.0], [30.0]]))
    merged = merge_rows(left, right)
    assert merged.ids.tolist() == [0, 1, 4, 6] and merged.rows.tolist() == [[10.0], [1.0], [22.0], [30.0]]
    merged.rows[:] = 0
    assert left.rows.tolist() == [[1.0], [2.0]] and right.rows.tolist() == [[10.0], [20.0], [30.0]]


@pytest.mark.parametrize("ids", [[5, 3], [3, 3], [1, 7, 6]])
@pytest.mark.parametrize("other", [[], [2], [4, 9]])
def test_merge_refuses_ids_that_do_not_increase(ids, other):
    bad = RowGradient(np.array(ids), np.ones((len(ids), 2)))
    good = RowGradient(np.array(other, np.int64), np.ones((len(other), 2)))
    for pair in ((bad, good), (good, bad)):
        with pytest.raises(ValueError, match="aggregate_rows"):
            merge_rows(*pair)


def test_take_rows_copies_and_refuses_ids_out_of_range():
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    ids = np.array([3, 0, 3])
    taken = take_rows(table, ids)
    assert taken.tobytes() == definition.take_rows(table, ids).tobytes()
    taken[:] = 0
    assert table[3, 0] == 9
    assert take_rows(table, np.empty(0, np.int64)).shape == (0, 3)
    for bad in (-1, 4, 2**32):
        with pytest.raises(IndexError, match="4 rows"):
            take_rows(table, np.array([1, bad]))


def test_rows_between_cuts_views_that_cover_everything_once():
    gradient = aggregate_rows(*draw("cut", 100, 3, 90))
    bounds = [0, 1, 30, 30, 61, 90]
    parts = [rows_between(gradient, a, b) for a, b in zip(bounds, bounds[1:])]
    assert np.concatenate([p.ids for p in parts]).tobytes() == gradient.ids.tobytes()
    assert np.concatenate([p.rows for p in parts]).tobytes() == gradient.rows.tobytes()
    assert all(np.shares_memory(p.rows, gradient.rows) for p in parts if len(p))
    assert all(a <= i < b for p, a, b in zip(parts, bounds, bounds[1:]) for i in p.ids)


def test_shapes_and_types_that_do_not_fit_are_refused():
    rows = np.ones((3, 2), np.float32)
    with pytest.raises(TypeError, match="integers"):
        aggregate_rows(np.array([1.0, 2.0, 3.0]), rows)
    with pytest.raises(ValueError, match="shape"):
        aggregate_rows(np.array([1, 2]), rows)
    with pytest.raises(ValueError, match="one variable"):
        merge_rows(RowGradient(np.array([1]), rows[:1]), RowGradient(np.array([1]), rows[:1, :1]))
    with pytest.raises(ValueError, match="one variable"):
        merge_rows(RowGradient(np.array([1]), rows[:1]), RowGradient(np.array([1]), rows[:1].astype(float)))


def test_half_precision_goes_by_the_definition():
    ids, rows = draw("half", 20, 2, 5)
    rows = np.clip(rows, -1, 1).astype(np.float16)
    assert_same(aggregate_rows(ids, rows), sum_in_order(ids, rows))
