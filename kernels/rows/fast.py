"""Row gradients in Numba: ids are sorted by a radix sort, then rows are read once. Same bits as ``definition``."""

import numpy as np

from kernels.arrays import read_only
from kernels.compiled import compiled
from kernels.rows.gradient import Grouped, RowGradient

DIGIT_BITS = 11
DIGITS = 1 << DIGIT_BITS
NOT_INCREASING = "the ids of a row gradient do not increase strictly: make it with aggregate_rows"


def grouped(ids) -> Grouped:
    """Sort row numbers once for several uses: (n,) int64, any order, repeats allowed. Local."""
    destination, unique = _destinations(read_only(ids))
    return Grouped(ids, unique, destination)


def aggregate_rows(ids, rows) -> RowGradient:
    of = ids if isinstance(ids, Grouped) else grouped(ids)
    total = np.empty((len(of.ids), rows.shape[1]), rows.dtype)
    _scatter(of.destination, rows, total)
    return RowGradient(of.ids, total)


def unique_ids(ids):
    return _destinations(read_only(ids))[1]


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    ids, left_row, right_row, increasing = union(left.ids, right.ids)
    if not increasing:
        raise ValueError(NOT_INCREASING)
    total = np.empty((len(ids), left.rows.shape[1]), left.rows.dtype)
    _add_pairs(left_row, right_row, left.rows, right.rows, total)
    return RowGradient(ids, total)


def take_rows(table, ids):
    return table.take(ids, axis=0)  # copies whole rows, about twice as fast as table[ids]


@compiled
def _sorted_order(ids):
    """Return (keys, order): the ids minus their minimum, sorted, and their original places; repeats keep their order.

    This is a stable radix sort from the least significant digit. Subtraction in uint64 is correct for all int64.
    """
    n = len(ids)
    low, high = ids[0], ids[0]
    for i in range(n):
        low, high = min(low, ids[i]), max(high, ids[i])
    span = np.uint64(high) - np.uint64(low)
    keys, order = np.empty(n, np.uint64), np.empty(n, np.uint32)
    for i in range(n):
        keys[i] = np.uint64(ids[i]) - np.uint64(low)
        order[i] = i
    other_keys, other_order = np.empty(n, np.uint64), np.empty(n, np.uint32)
    counts = np.empty(DIGITS, np.int64)
    shift = np.uint64(0)
    while shift < 64 and span >> shift > 0:
        counts[:] = 0
        for i in range(n):
            counts[(keys[i] >> shift) & np.uint64(DIGITS - 1)] += 1
        total = 0
        for digit in range(DIGITS):
            counts[digit], total = total, total + counts[digit]
        for i in range(n):
            digit = (keys[i] >> shift) & np.uint64(DIGITS - 1)
            place = counts[digit]
            counts[digit] = place + 1
            other_keys[place] = keys[i]
            other_order[place] = order[i]
        keys, other_keys = other_keys, keys
        order, other_order = other_order, order
        shift += np.uint64(DIGIT_BITS)
    return keys, order


@compiled
def _destinations(ids):
    """Return (destination, unique): row i is added to total[destination[i]]; the first is written to ~destination.

    ids: read-only, as a model's are. Other ids are made read-only, too, so that only one version is compiled.
    """
    n = len(ids)
    if n == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    keys, order = _sorted_order(ids)
    destination, unique = np.empty(n, np.int64), np.empty(n, np.int64)
    last = -1
    for place in range(n):
        is_first = np.int64(place == 0 or keys[place] != keys[place - 1])
        last += is_first
        unique[last] = ids[order[place]]
        destination[order[place]] = last ^ -is_first  # ~last without a branch, which would be hard to predict
    return destination, unique[: last + 1].copy()


@compiled
def segments(ids):
    """Return (unique, starts, order): rows order[starts[j]], ..., order[starts[j + 1] - 1] belong to unique[j].

    Rows of a segment are in order of occurrence.  unique: (k,), starts: (k + 1,), order: (n,), all int64.
    """
    n = len(ids)
    unique, starts, order = np.empty(n, np.int64), np.empty(n + 1, np.int64), np.empty(n, np.int64)
    count = 0
    if n > 0:
        keys, places = _sorted_order(ids)
        for place in range(n):
            order[place] = places[place]
            if place == 0 or keys[place] != keys[place - 1]:
                unique[count], starts[count] = ids[places[place]], place
                count += 1
    starts[count] = n
    return unique[:count].copy(), starts[:count + 1].copy(), order


@compiled
def _scatter(destination, rows, total):
    """Write or add every row in order of occurrence. Reads are sequential, and no row of total is set to zero first."""
    for i in range(len(rows)):
        to = destination[i]
        if to < 0:
            for c in range(rows.shape[1]):
                total[~to, c] = rows[i, c]
        else:
            for c in range(rows.shape[1]):
                total[to, c] += rows[i, c]


@compiled
def union(left, right):
    """Return (ids, left_row, right_row, increasing): the union, each id's place on both sides or -1, whether it rises.

    The union keeps the order of both sides, so it increases strictly only if both sides do.
    """
    most = len(left) + len(right)
    ids, left_row, right_row = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    i, j, count = 0, 0, 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        ids[count] = min(a, b)
        left_row[count] = i if a <= b else -1
        right_row[count] = j if b <= a else -1
        i += a <= b
        j += b <= a
        count += 1
    while i < len(left):
        ids[count], left_row[count], right_row[count] = left[i], i, -1
        i, count = i + 1, count + 1
    while j < len(right):
        ids[count], left_row[count], right_row[count] = right[j], -1, j
        j, count = j + 1, count + 1
    increasing = True
    for k in range(1, count):
        increasing &= ids[k - 1] < ids[k]
    return ids[:count].copy(), left_row[:count], right_row[:count], increasing


@compiled
def _add_pairs(left_row, right_row, left, right, total):
    for k in range(len(total)):
        i, j = left_row[k], right_row[k]
        if j < 0:
            for c in range(total.shape[1]):
                total[k, c] = left[i, c]
        elif i < 0:
            for c in range(total.shape[1]):
                total[k, c] = right[j, c]
        else:
            for c in range(total.shape[1]):
                total[k, c] = left[i, c] + right[j, c]
