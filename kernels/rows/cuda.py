"""Row gradients on a GPU: rows are added in order of occurrence (``cuda_segments``). Same bits as ``definition``.

Row numbers are mostly on the host, where they are routed. Their segments are then computed on the host (``fast``) and
sent to the GPU, without waiting. Row numbers on the GPU stay there; the host waits once, for the number of unique rows.
"""

import numpy as np

from kernels.arrays import array_module, is_numpy, to_device
from kernels.cuda import each_element
from kernels.rows import cuda_segments, fast
from kernels.rows.cuda_segments import add_segments
from kernels.rows.gradient import RowGradient

LOW = 2**32 - 1
ONE_LONG = 2**32  # the count of long segments is in the upper half, the count of all in the lower


def aggregate_rows(ids, rows) -> RowGradient:
    """See ``definition.aggregate_rows``. ids: on the host or on the GPU; the result's ids are at the same place."""
    xp, width = array_module(rows), rows.shape[1]
    if not is_numpy(ids):
        return aggregate_there(ids, rows)
    unique, starts, order = fast.segments(ids)
    long = np.flatnonzero(np.diff(starts) > cuda_segments.LONG)
    parts = [np.array([len(unique), len(long)]), starts, order, long]
    there = to_device(np.concatenate(parts))  # one transfer
    counts, starts, order, long = xp.split(there, np.cumsum([len(part) for part in parts])[:-1].tolist())
    total = xp.empty((len(unique), width), rows.dtype)
    add_segments(*total.shape, width, counts, starts, order, long, xp.ascontiguousarray(rows), total)
    return RowGradient(unique, total)


def unique_ids(ids):
    """See ``definition.unique_ids``. ids: on the GPU."""
    return aggregate_there(ids, array_module(ids).empty((len(ids), 0), np.float32)).ids


def aggregate_there(ids, rows, wide=False):
    """Aggregate rows whose ids are on the GPU. The host starts all kernels, then waits for the number of unique rows.

    So the result is in memory for all n rows. wide: ids may have more than 32 bits, and are sorted by all of them.
    """
    xp, count, width = array_module(rows), len(ids), rows.shape[1]
    if not count:
        return RowGradient(ids, xp.empty(rows.shape, rows.dtype))
    counts, ids = xp.zeros(3, np.int64), xp.ascontiguousarray(ids)
    keys = ids
    if not wide:
        keys = xp.empty(count, np.uint32)  # sorted in half the passes
        note_low(1, count, ids, keys, counts)
    order = xp.argsort(keys, kind="stable")  # repeats keep their order
    marks = xp.empty(count, np.int64)
    mark_places(1, count, cuda_segments.LONG, ids, order, marks)
    number = xp.cumsum(marks)
    unique, starts, long = (xp.empty(n, np.int64) for n in (count, count + 1, count))
    note_starts(1, count, count, ids, order, marks, number, unique, starts, long, counts)
    told, event = xp.cuda.alloc_pinned_memory(counts.nbytes), xp.cuda.Event(block=False, disable_timing=True)
    told = np.frombuffer(told, np.int64, len(counts))
    counts.get(out=told, blocking=False)
    event.record()
    total = xp.empty((count, width), rows.dtype)
    add_segments(*total.shape, width, counts, starts, order, long, xp.ascontiguousarray(rows), total)
    event.synchronize()
    segments, _, is_wide = told.tolist()
    if is_wide and not wide:
        return aggregate_there(ids, rows, wide=True)
    return RowGradient(unique[:segments], total[:segments])


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    """See ``definition.merge_rows``. Both sides' ids are on the host, or both on the GPU."""
    if not is_numpy(left.ids, right.ids):
        xp = array_module(left.ids)
        if not all(bool((ids[1:] > ids[:-1]).all()) for ids in (left.ids, right.ids)):
            raise ValueError(fast.NOT_INCREASING)
        return aggregate_rows(xp.concatenate([left.ids, right.ids]), xp.concatenate([left.rows, right.rows]))
    ids, left_row, right_row, increasing = fast.union(left.ids, right.ids)
    if not increasing:
        raise ValueError(fast.NOT_INCREASING)
    places = to_device(np.concatenate([left_row, right_row]))
    xp = array_module(left.rows)
    count, width = len(ids), left.rows.shape[1]
    total = xp.empty((count, width), left.rows.dtype)
    quarter = -(-width // 4)
    add_pairs(count, quarter, width, quarter, places[:count], places[count:], xp.ascontiguousarray(left.rows),
              xp.ascontiguousarray(right.rows), total)
    return RowGradient(ids, total)


def take_rows(table, ids):
    """See ``definition.take_rows``. ids: on the host or on the GPU."""
    xp, width = array_module(table), table.shape[1]
    taken = xp.empty((len(ids), width), table.dtype)
    quarter = -(-width // 4)
    copy_rows(len(ids), quarter, width, quarter, to_device(ids), xp.ascontiguousarray(table), taken)
    return taken


@each_element
def add_pairs(row, column, width, quarter, left_row, right_row, left, right, total):
    """Write left[left_row] + right[right_row]; if one of the two numbers is -1, write only the other row.

    Here and in ``copy_rows`` a thread has up to four columns, a quarter of the width apart, and loads them together.
    With one column for each thread, too few loads would be in flight to keep the memory busy.
    """
    i, j, at = left_row[row] * width + column, right_row[row] * width + column, row * width + column
    no_left, no_right = left_row[row] < 0, right_row[row] < 0
    if column + 3 * quarter < width:
        i2, i3, i4 = i + quarter, i + 2 * quarter, i + 3 * quarter
        j2, j3, j4 = j + quarter, j + 2 * quarter, j + 3 * quarter
        if no_right:
            one, two, three, four = left[i], left[i2], left[i3], left[i4]
        elif no_left:
            one, two, three, four = right[j], right[j2], right[j3], right[j4]
        else:
            one, two = left[i] + right[j], left[i2] + right[j2]
            three, four = left[i3] + right[j3], left[i4] + right[j4]
        total[at] = one
        total[at + quarter] = two
        total[at + 2 * quarter] = three
        total[at + 3 * quarter] = four
    else:
        for part in range(4):
            if column + part * quarter < width:
                ii, jj = i + part * quarter, j + part * quarter
                total[at + part * quarter] = left[ii] if no_right else right[jj] if no_left else left[ii] + right[jj]


@each_element
def copy_rows(row, column, width, quarter, ids, table, taken):
    """Copy up to four columns of row ids[row] of the table."""
    source, target = ids[row] * width + column, row * width + column
    if column + 3 * quarter < width:
        one, two = table[source], table[source + quarter]
        three, four = table[source + 2 * quarter], table[source + 3 * quarter]
        taken[target] = one
        taken[target + quarter] = two
        taken[target + 2 * quarter] = three
        taken[target + 3 * quarter] = four
    else:
        for part in range(4):
            if column + part * quarter < width:
                taken[target + part * quarter] = table[source + part * quarter]


@each_element
def note_low(row, place, ids, keys, counts):
    """Write the low 32 bits of an id; set counts[2] if it has more. All threads that write, write the same value."""
    keys[place] = np.uint32(ids[place] & LOW)
    if ids[place] >> 32 != 0:
        counts[2] = 1


@each_element
def mark_places(row, place, long, ids, order, marks):
    """Write 1 if a sorted id differs from the previous one, and ONE_LONG if it occurred ``long`` times before."""
    own = ids[order[place]]
    mark = 1 if place == 0 or own != ids[order[place - 1]] else 0
    if place >= long and own == ids[order[place - long]]:
        if place == long or own != ids[order[place - long - 1]]:
            mark += ONE_LONG
    marks[place] = mark


@each_element
def note_starts(row, place, count, ids, order, marks, number, unique, starts, long, counts):
    """Write the unique ids, the starts of their rows, and the long segments. number: the sum of marks up to here."""
    segments, longs = number[place] & LOW, number[place] >> 32
    if marks[place] & 1:
        unique[segments - 1] = ids[order[place]]
        starts[segments - 1] = place
    if marks[place] >= ONE_LONG:
        long[longs - 1] = segments - 1
    if place == count - 1:
        starts[segments] = count
        counts[0] = segments
        counts[1] = longs
