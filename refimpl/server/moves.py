"""From one partitioning to another: which rows a rank sends to whom, and which come.

Every rank works out its part from the two partitionings alone, so that rows travel without their numbers.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.server.partition import Partitioning


@dataclass(frozen=True)
class Moves:
    """What one rank does with its table of one variable.

    leaving[o]: (k,) int64 rows of its old table that rank o owns next, in the order of o's new table.
    arriving[r]: (k,) int64 rows of its new table that rank r owned before, rising. Own rows are in both.
    """

    leaving: list[np.ndarray]
    arriving: list[np.ndarray]


def moves_of(old: Partitioning, new: Partitioning, rank: int) -> Moves:
    """Return what a rank sends and is sent when a variable's rows go from the old owners to the new. Local."""
    return Moves(_rows_by_owner(old, new, rank), [np.sort(rows) for rows in _rows_by_owner(new, old, rank)])


def _rows_by_owner(table: Partitioning, other: Partitioning, rank: int) -> list[np.ndarray]:
    """Return, for each rank, the rows of ``rank``'s table that it has in ``other``, in its order there."""
    partition, index = other.locate(table.global_rows(rank))
    owner = np.asarray(other.owners, np.int64)[partition]
    local = np.asarray(other.first_row, np.int64)[partition] + index
    order = np.lexsort((local, owner))
    return np.split(order, np.cumsum(np.bincount(owner, minlength=table.ranks))[:-1])
