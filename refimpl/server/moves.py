"""From one partitioning to another: the rows that each rank sends to each other rank.

Every rank computes its part from the two partitionings, so that rows travel without their numbers.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.server.partition import Partitioning


@dataclass(frozen=True)
class Moves:
    """The rows of one variable that one rank sends and receives.

    leaving[o]: (k,) int64 rows of its old table that rank o will own, in the order of o's new table.
    arriving[r]: (k,) int64 rows of its new table that rank r owned before, rising. Rows that stay are in both.
    """

    leaving: list[np.ndarray]
    arriving: list[np.ndarray]


def moves_of(old: Partitioning, new: Partitioning, rank: int) -> Moves:
    """Return a rank's moves when a variable's rows go from the old owners to the new ones. Local."""
    return Moves(_rows_by_owner(old, new, rank), [np.sort(rows) for rows in _rows_by_owner(new, old, rank)])


def _rows_by_owner(table: Partitioning, other: Partitioning, rank: int) -> list[np.ndarray]:
    """Return for each rank the rows of ``rank``'s table that it has in ``other``, in the order of ``other``."""
    partition, index = other.locate(table.global_rows(rank))
    owner = np.asarray(other.owners, np.int64)[partition]
    local = np.asarray(other.first_row, np.int64)[partition] + index
    order = np.lexsort((local, owner))
    return np.split(order, np.cumsum(np.bincount(owner, minlength=table.ranks))[:-1])
