"""Which rows a batch needs, as a user's own function says."""

import numpy as np

from kernels import unique_ids


def declared(rows, tables, batch) -> dict:
    """Return what a user's function says that a batch needs: table -> (k,) int64 sorted unique row numbers. Local.

    Raises ValueError unless it names the tables, and whole numbers.
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
