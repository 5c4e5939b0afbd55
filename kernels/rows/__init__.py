"""Row gradients: gradients that touch few rows of a large variable, and their sums."""

import numpy as np

from kernels.arrays import array_module, is_numpy, version_for
from kernels.rows import cuda, definition, fast
from kernels.rows.fast import grouped
from kernels.rows.gradient import Grouped, RowGradient


def aggregate_rows(ids, rows) -> RowGradient:
    """Sum the rows that share an id, in order of occurrence (see ``definition.aggregate_rows``). Local.

    ids: integers, or what ``grouped`` has returned, so that they are not sorted again.
    Rows on a GPU may have ids on the host; the result's ids are then on the host, too (see ``cuda``).
    Raises ValueError if the shapes do not match, TypeError if the ids are not integers.
    """
    given, version = ids.given if isinstance(ids, Grouped) else ids, version_for(fast, cuda, definition, rows)
    if given.ndim != 1 or rows.ndim != 2 or len(given) != len(rows):
        raise ValueError(f"ids have shape {given.shape} and rows {rows.shape}: give them (n,) and (n, d)")
    if given.dtype.kind not in "iu":
        raise TypeError(f"ids are {given.dtype}: row numbers are integers, and must never pass through floats")
    if given is ids or version is not fast:
        ids = given.astype(array_module(given).int64, copy=False)
    return version.aggregate_rows(ids, rows)


def unique_ids(ids):
    """Return the sorted unique ids: (n,) int64, any order, repeats allowed -> (k,) int64. Local."""
    return (fast if is_numpy(ids) else cuda).unique_ids(ids)


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    """Add two row gradients: ``left + right`` in rows that both have (see ``definition.merge_rows``). Local.

    The result shares no memory with its arguments. Raises ValueError if their rows differ in width or dtype.
    """
    if left.rows.shape[1:] != right.rows.shape[1:] or left.rows.dtype != right.rows.dtype:
        raise ValueError(f"left rows are {left.rows.shape} {left.rows.dtype}, right rows {right.rows.shape} "
                         f"{right.rows.dtype}: they are not gradients of one variable")
    return version_for(fast, cuda, definition, left.rows, right.rows).merge_rows(left, right)


def take_rows(table, ids):
    """Return ``table[ids]`` as a new array: (k, d). Local.

    Raises IndexError for an id out of range. Negative ids are out of range; they do not count from the end.
    """
    if len(ids) and int(ids.astype(np.uint64).max()) >= len(table):  # as uint64, negative ids are the largest
        raise IndexError(f"ids reach from {int(ids.min())} to {int(ids.max())}, the table has {len(table)} rows")
    return version_for(fast, cuda, definition, table).take_rows(table, ids)


def rows_between(gradient: RowGradient, start: int, stop: int) -> RowGradient:
    """Return the part of a row gradient with start <= id < stop, as views; the ids do not change. Local."""
    xp = array_module(gradient.ids)
    low, high = xp.searchsorted(gradient.ids, xp.asarray([start, stop])).tolist()
    return RowGradient(gradient.ids[low:high], gradient.rows[low:high])


__all__ = ["RowGradient", "aggregate_rows", "grouped", "merge_rows", "rows_between", "take_rows", "unique_ids"]
