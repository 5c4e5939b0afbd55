"""The rows that a batch needs, from a function of the user; and the whole table that has them."""

import numpy as np

from kernels import to_numpy, unique_ids

MOST_BYTES = 1 << 26
"""The most bytes of all tables together. Larger tables are not made whole to repeat a microbatch with them."""


def declared(rows, tables, batch) -> dict:
    """Return the row numbers that a user's function gives for a batch: table -> (k,) int64, sorted, unique. Local.

    Raises ValueError unless the function returns integers for exactly these tables.
    """
    said = rows(batch)
    if not isinstance(said, dict) or set(said) != set(tables):
        told = sorted(said, key=str) if isinstance(said, dict) else type(said).__name__
        raise ValueError(f"rows returned {told}: let it return a dict, name of each table -> row numbers; the tables "
                         f"are {', '.join(tables)}")
    result = {}
    for name, ids in said.items():
        ids = np.asarray(ids).reshape(-1)
        if len(ids) and ids.dtype.kind not in "iu":
            raise ValueError(f"rows returned {ids.dtype} for {name}: row numbers are whole numbers")
        result[name] = unique_ids(ids.astype(np.int64))
    return result


def whole_table(shape, ids, rows):
    """Return an array with a table's shape on the host that has these rows, and zeros elsewhere. Local."""
    whole = np.zeros(shape, rows.dtype)
    whole[ids] = to_numpy(rows)
    return whole
