"""Row gradients: each version holds the definitions' bits, wherever row numbers are; definitions mean what they say."""

import numpy as np
import pytest

from kernels.arrays import to_numpy
from kernels.random import key_of, uniform
from kernels.rows import (RowGradient, aggregate_rows, definition, grouped, merge_rows, rows_between, take_rows,
                          unique_ids)

INCREASE = "the ids of a row gradient do not increase strictly: make it with aggregate_rows"


@pytest.fixture(params=["host", "gpu", "gpu-too"])
def place(request):
    """Where rows and their numbers are. "gpu": the numbers stay on the host."""
    return Place(*([np] * 2 if request.param == "host" else
                   [np if request.param == "gpu" else request.getfixturevalue("gpu"), request.getfixturevalue("gpu")]))


class Place:
    def __init__(self, of_numbers, of_rows):
        self.numbers, self.rows = of_numbers.asarray, of_rows.asarray

    def gradient(self, gradient):
        return RowGradient(self.numbers(gradient.ids), self.rows(gradient.rows))

    def aggregate(self, ids, rows):
        """Return the sum by the version of this place; the ids are where they were."""
        found = aggregate_rows(self.numbers(ids), self.rows(rows))
        assert type(found.ids) is type(self.numbers(ids)) and type(found.rows) is type(self.rows(rows))
        return found


def draw(name, count, width, vocabulary, dtype="float32"):
    """Return (ids, rows) with repeats and with signs and magnitudes that make the order of a sum visible."""
    ids = (uniform(key_of("ids", name), count) * vocabulary).astype(np.int64)
    u = uniform(key_of("rows", name), count * width).reshape(count, width) - 0.5
    return ids, (u * 2.0 ** np.round(40 * u)).astype(dtype)


def assert_same(result, expected):
    ids, rows = to_numpy(result.ids), to_numpy(result.rows)
    assert ids.dtype == np.int64 and rows.dtype == expected.rows.dtype and rows.shape == expected.rows.shape
    assert ids.tobytes() == expected.ids.tobytes() and rows.tobytes() == expected.rows.tobytes()


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


SHAPES = [(0, 3, 5), (1, 1, 1), (7, 3, 1), (50, 7, 4), (5, 0, 3), (60, 17, 1000),
          *(pytest.param(*shape, marks=pytest.mark.big) for shape in [(1000, 1, 50), (333, 128, 300), (41, 33, 7)])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count, width, vocabulary", SHAPES)
def test_aggregate_is_the_sum_in_order_of_occurrence(place, count, width, vocabulary, dtype):
    ids, rows = draw("aggregate", count, width, vocabulary, dtype)
    expected = sum_in_order(ids, rows)
    assert_same(definition.aggregate_rows(ids, rows), expected)
    assert_same(place.aggregate(ids, rows), expected)
    once = grouped(ids)
    assert_same(aggregate_rows(once, place.rows(rows)), expected)
    assert (once.ids == expected.ids).all() and (once.ids[once.places] == ids).all()


def test_the_order_of_occurrence_shows_in_the_bits():
    ids, rows = draw("order", 300, 5, 7)
    turned = aggregate_rows(ids[::-1].copy(), rows[::-1].copy())
    assert turned.rows.tobytes() != aggregate_rows(ids, rows).rows.tobytes()


@pytest.mark.parametrize("lengths, width", [((4,), 1), ((3, 5, 4, 1), 5), ((1, 23, 2, 13), 9)])
def test_long_segments_hold_the_definition(place, monkeypatch, lengths, width):
    """Of more than 3 rows: fetched tile by tile, on a GPU and in the simulator."""
    monkeypatch.setattr("kernels.rows.cuda_segments.LONG", 3)
    _, rows = draw("long", sum(lengths), width, 1)
    ids = np.random.default_rng(1).permutation(np.repeat(7 * np.arange(len(lengths)), lengths))
    assert_same(place.aggregate(ids, rows), sum_in_order(ids, rows))


@pytest.mark.parametrize("count", [0, 1, 6, 1000])
@pytest.mark.parametrize("low, span", [(0, 1), (0, 50), (-7, 2**12), (2**31 - 5, 10), (-(2**63), 2**64 - 1)])
def test_unique_ids_are_a_sorted_set(count, low, span):
    random = key_of("unique", count, low, span)
    ids = np.array([low + int(u * span) for u in uniform(random, count)], np.int64)
    expected = sorted(set(ids.tolist()))
    for result in (definition.unique_ids(ids), unique_ids(ids), unique_ids(ids[::-1])):
        assert result.dtype == np.int64 and result.tolist() == expected


@pytest.mark.parametrize("top", [2**11, 2**22 + 3, 2**31 + 11, 2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize("signs", [1, -1])
def test_ids_of_any_size_stay_apart(place, top, signs):
    ids = np.array([top, 0, top - 1, top, 2, top - 2**10, 0, signs, signs * top], np.int64)
    rows = np.arange(18, dtype=np.float32).reshape(9, 2)
    expected = sum_in_order(ids, rows)
    assert_same(place.aggregate(ids, rows), expected)
    assert to_numpy(unique_ids(place.numbers(ids))).tolist() == expected.ids.tolist()


def test_a_row_that_occurs_once_keeps_its_bits(place):
    rows = np.array([[-0.0, np.nan, np.inf, 1e-45], [1.0, 2.0, 3.0, 4.0]], np.float32)
    rows.view(np.uint32)[0, 1] |= 0x1234  # the payload of the NaN is copied too
    result = place.aggregate(np.array([9, 4]), rows)
    assert to_numpy(result.rows).tobytes() == rows[::-1].tobytes()
    other = place.gradient(RowGradient(np.array([5]), np.ones((1, 4), np.float32)))
    for merged in (merge_rows(other, result), merge_rows(result, other)):
        assert to_numpy(merged.ids).tolist() == [4, 5, 9] and to_numpy(merged.rows)[2].tobytes() == rows[0].tobytes()


def test_a_row_of_minus_zeros_that_repeats_stays_minus_zero(place):
    rows = np.full((3, 2), -0.0, np.float32)
    assert np.signbit(to_numpy(place.aggregate(np.array([1, 1, 1]), rows).rows)).all()


def test_strided_and_narrow_integer_input_is_the_same_input(place):
    ids, rows = draw("strided", 60, 10, 40)
    expected = sum_in_order(ids[::2], rows[::2, ::3])
    for numbers in (ids, ids.astype(np.int32)):
        assert_same(aggregate_rows(place.numbers(numbers)[::2], place.rows(rows)[::2, ::3]), expected)


def test_alignment_does_not_move_the_bits():
    ids, rows = draw("alignment", 100, 33, 20)
    room = np.empty(rows.size + 16, np.float32)
    for offset in range(16):
        shifted = room[offset : offset + rows.size].reshape(rows.shape)
        shifted[...] = rows
        assert_same(aggregate_rows(ids, shifted), aggregate_rows(ids, rows))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left, right", [(0, 0), (0, 9), (9, 0), (40, 40), (70, 20)])
@pytest.mark.parametrize("vocabulary", [50, 3_000_000_000])
def test_merge_holds_the_definition(place, left, right, vocabulary, dtype):
    a, b = (definition.aggregate_rows(*draw(n, c, 5, vocabulary, dtype)) for n, c in (("a", left), ("b", right)))
    expected = definition.merge_rows(a, b)
    assert_same(definition.merge_rows(b, a), expected)  # addition commutes to the bit
    for one, other in ((a, b), (b, a)):
        assert_same(merge_rows(place.gradient(one), place.gradient(other)), expected)


@pytest.mark.parametrize("width", [1, 2, 4, 11])
def test_rows_of_any_width(place, width):
    a, b = (definition.aggregate_rows(*draw(n, 20, width, 25)) for n in "ab")
    ours = [place.gradient(one) for one in (a, b)]
    assert_same(merge_rows(*ours), definition.merge_rows(a, b))
    taken = take_rows(ours[0].rows, place.numbers(np.array([3, 0, 3])))
    assert to_numpy(taken).tobytes() == definition.take_rows(a.rows, [3, 0, 3]).tobytes()


def test_merge_adds_left_and_right():
    left = RowGradient(np.array([1, 4]), np.array([[1.0], [2.0]]))
    right = RowGradient(np.array([0, 4, 6]), np.array([[10.0], [20.0], [30.0]]))
    merged = merge_rows(left, right)
    assert merged.ids.tolist() == [0, 1, 4, 6] and merged.rows.tolist() == [[10.0], [1.0], [22.0], [30.0]]
    merged.rows[:] = 0
    assert left.rows.tolist() == [[1.0], [2.0]] and right.rows.tolist() == [[10.0], [20.0], [30.0]]


@pytest.mark.parametrize("ids", [[5, 3], [3, 3], [1, 7, 6]])
@pytest.mark.parametrize("other", [[], [4, 9]])
def test_merge_refuses_ids_that_do_not_increase(place, ids, other):
    bad, good = (place.gradient(RowGradient(np.array(some, np.int64), np.ones((len(some), 2), np.float32)))
                 for some in (ids, other))
    for pair in ((bad, good), (good, bad)):
        with pytest.raises(ValueError, match=INCREASE):
            merge_rows(*pair)


def test_take_rows_copies_and_refuses_ids_out_of_range(place):
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    table = place.rows(host.copy())
    taken = take_rows(table, place.numbers(np.array([3, 0, 3])))
    assert to_numpy(taken).tobytes() == host[[3, 0, 3]].tobytes()
    taken[...] = 0
    assert (to_numpy(table) == host).all()
    assert take_rows(table, place.numbers(np.empty(0, np.int64))).shape == (0, 3)
    assert take_rows(table[:, 1:], place.numbers(np.array([2]))).tolist() == [[7, 8]]
    for bad in (-1, 4, 2**32):
        with pytest.raises(IndexError, match="4 rows"):
            take_rows(table, place.numbers(np.array([1, bad])))


def test_rows_between_cuts_views_that_cover_everything_once(place):
    whole = aggregate_rows(*draw("cut", 40, 3, 90))
    gradient, bounds = place.gradient(whole), [0, 1, 30, 30, 61, 90]
    parts = [rows_between(gradient, a, b) for a, b in zip(bounds, bounds[1:])]
    for part in parts:
        part.rows[...] += 1  # a view
    assert np.concatenate([to_numpy(p.ids) for p in parts]).tobytes() == whole.ids.tobytes()
    assert (to_numpy(gradient.rows) == np.concatenate([to_numpy(p.rows) for p in parts])).all()
    assert all(a <= i < b for p, a, b in zip(parts, bounds, bounds[1:]) for i in to_numpy(p.ids))


def test_shapes_and_types_that_do_not_fit_are_refused():
    rows = np.ones((3, 2), np.float32)
    with pytest.raises(TypeError, match="integers"):
        aggregate_rows(np.array([1.0, 2.0, 3.0]), rows)
    with pytest.raises(ValueError, match="shape"):
        aggregate_rows(np.array([1, 2]), rows)
    for other in (rows[:1, :1], rows[:1].astype(float)):
        with pytest.raises(ValueError, match="one variable"):
            merge_rows(RowGradient(np.array([1]), rows[:1]), RowGradient(np.array([1]), other))


def test_half_precision_goes_by_the_definition():
    ids, rows = draw("half", 20, 2, 5)
    rows = np.clip(rows, -1, 1).astype(np.float16)
    assert_same(aggregate_rows(ids, rows), sum_in_order(ids, rows))


def test_with_ids_on_the_host_nothing_waits_for_the_gpu(gpu, standin):
    (ids, rows), (more, others) = draw("a", 30, 4, 20), draw("b", 20, 4, 20)
    rows, others = gpu.asarray(rows), gpu.asarray(others)
    with standin.counting() as count:
        merged = merge_rows(aggregate_rows(ids, rows), aggregate_rows(more, others))
        take_rows(merged.rows, np.array([0, 1]))
    assert [one.kind for one in count.all] == ["to_device"] * 4
