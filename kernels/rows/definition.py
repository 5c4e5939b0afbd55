"""Plain array code for row gradients: the oracle. Never optimised."""

from kernels.arrays import array_module
from kernels.rows.gradient import RowGradient


def aggregate_rows(ids, rows) -> RowGradient:
    """Sum the rows that share an id, in order of occurrence.

    result.rows[j] = ((rows[i0] + rows[i1]) + rows[i2]) + ...  for i0 < i1 < ... with ids[i] == result.ids[j]

    ids: (n,) integers, any order, repeats allowed.  rows: (n, d).
    """
    xp = array_module(ids, rows)
    ids = xp.asarray(ids, dtype=xp.int64)
    unique, first, position = xp.unique(ids, return_index=True, return_inverse=True)
    total = rows[first]
    repeats = xp.ones(len(ids), dtype=bool)
    repeats[first] = False
    xp.add.at(total, position[repeats], rows[repeats])
    return RowGradient(unique, total)


def unique_ids(ids):
    """Return the unique ids in rising order.  ids: (n,) int64, any order, repeats allowed."""
    return array_module(ids).unique(ids)


def merge_rows(left: RowGradient, right: RowGradient) -> RowGradient:
    """Add two row gradients. A row that only one of them has is copied (nothing is added, not even +0)."""
    xp = array_module(left.rows, right.rows)
    return aggregate_rows(xp.concatenate([left.ids, right.ids]), xp.concatenate([left.rows, right.rows]))


def take_rows(table, ids):
    """Return ``table[ids]``: the rows of a table, copied.  table: (R, d).  ids: (k,) int64."""
    return table[ids]
