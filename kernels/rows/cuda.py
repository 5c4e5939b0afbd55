"""Row gradients on a GPU: one thread adds one column of one row, in order of occurrence. Same bits as ``definition``.

Row numbers mostly are on the host, where they are routed: what belongs where is then found there (``fast``) and sent,
and nothing waits for the GPU. Numbers that are on the GPU stay there; the host waits once, for how many rows there are.
"""

import numpy as np

from kernels.arrays import array_module, is_numpy, to_device
from kernels.cuda import each_element
from kernels.rows import fast
from kernels.rows.gradient import RowGradient

AHEAD = 8  # rows fetched at once: they come in any order, and are added in theirs


def aggregate_rows(ids, rows) -> RowGradient:
    """See ``definition.aggregate_rows``. ids: on the host or on the GPU, and so are the result's."""
    unique, starts, order = segments(ids)
    return RowGradient(unique, add_up(starts, order, rows))


def unique_ids(ids):
    """See ``definition.unique_ids``. ids: on the GPU."""
    return segments(ids)[0]


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    """See ``definition.merge_rows``. Both sides' ids are on the host, or both on the GPU."""
    if not is_numpy(left.ids, right.ids):
        return merge_on_gpu(left, right)
    ids, left_row, right_row, increasing = fast.union(left.ids, right.ids)
    if not increasing:
        raise ValueError(fast.NOT_INCREASING)
    places = to_device(np.concatenate([left_row, right_row]))
    xp = array_module(left.rows)
    count, width = len(ids), left.rows.shape[1]
    total = xp.empty((count, width), left.rows.dtype)
    add_pairs(count, width, width, places[:count], places[count:], xp.ascontiguousarray(left.rows),
              xp.ascontiguousarray(right.rows), total)
    return RowGradient(ids, total)


def take_rows(table, ids):
    """See ``definition.take_rows``. ids: on the host or on the GPU."""
    xp, width = array_module(table), table.shape[1]
    taken = xp.empty((len(ids), width), table.dtype)
    copy_rows(len(ids), width, width, to_device(ids), xp.ascontiguousarray(table), taken)
    return taken


def segments(ids):
    """Return (unique, starts, order): rows order[starts[j]], ..., order[starts[j + 1] - 1] belong to unique[j].

    unique: where ids are.  starts: (k + 1,), order: (n,), both int64 on the GPU.
    """
    if is_numpy(ids):
        unique, starts, order = fast.segments(ids)
        both = to_device(np.concatenate([starts, order]))  # one transfer
        return unique, both[:len(starts)], both[len(starts):]
    xp, n = array_module(ids), len(ids)
    order = xp.argsort(ids, kind="stable")  # repeats keep their order
    ids = ids[order]
    first = xp.empty(n, xp.int64)
    mark_first(1, n, ids, first)
    number = xp.cumsum(first)
    count = int(number[-1]) if n else 0
    unique, starts = xp.empty(count, xp.int64), xp.full(count + 1, n, xp.int64)
    note_starts(1, n, ids, first, number, unique, starts)
    return unique, starts, order


def add_up(starts, order, rows):
    """Return the sum of each segment's rows, from the first to the last: (k, d)."""
    xp, count, width = array_module(rows), len(starts) - 1, rows.shape[1]
    total = xp.empty((count, width), rows.dtype)
    add_segments(count, width, width, starts, order, xp.ascontiguousarray(rows), total)
    return total


def merge_on_gpu(left, right):
    """Merge row gradients whose ids are on the GPU."""
    xp = array_module(left.ids)
    for ids in (left.ids, right.ids):
        if not bool((ids[1:] > ids[:-1]).all()):
            raise ValueError(fast.NOT_INCREASING)
    return aggregate_rows(xp.concatenate([left.ids, right.ids]), xp.concatenate([left.rows, right.rows]))


@each_element
def add_segments(segment, column, width, starts, order, rows, total):
    """Write the sum of rows order[starts[segment]], order[starts[segment] + 1], ... to total[segment]."""
    place, stop = starts[segment], starts[segment + 1]
    value = rows[order[place] * width + column]
    place += 1
    while place + AHEAD <= stop:
        for ahead in range(AHEAD):
            value += rows[order[place + ahead] * width + column]
        place += AHEAD
    while place < stop:
        value += rows[order[place] * width + column]
        place += 1
    total[segment * width + column] = value


@each_element
def add_pairs(row, column, width, left_row, right_row, left, right, total):
    """Write left[left_row] + right[right_row], or the one of which the other, being -1, says that it is alone."""
    i, j, at = left_row[row], right_row[row], row * width + column
    if j < 0:
        total[at] = left[i * width + column]
    elif i < 0:
        total[at] = right[j * width + column]
    else:
        total[at] = left[i * width + column] + right[j * width + column]


@each_element
def copy_rows(row, column, width, ids, table, taken):
    """Copy row ids[row] of the table."""
    taken[row * width + column] = table[ids[row] * width + column]


@each_element
def mark_first(row, place, ids, first):
    """Write 1 where a sorted id differs from the one before, else 0."""
    first[place] = 1 if place == 0 or ids[place] != ids[place - 1] else 0


@each_element
def note_starts(row, place, ids, first, number, unique, starts):
    """Write each id once, and where its rows begin; number: how many ids have begun up to here."""
    if first[place] != 0:
        unique[number[place] - 1] = ids[place]
        starts[number[place] - 1] = place
