"""Rounds of an exchange of rows: while what came in one is worked on, the next is under way.

An owner's partitions are exchanged one after the other, small ones together: that is what more partitions gain, θ1 / P
of the search (``refimpl.plan.partitions.search``).
"""

from itertools import pairwise
from typing import Iterable, Iterator, TypeVar

import numpy as np

from refimpl.server.partition import Partitioning

T = TypeVar("T")

ROUND = 1 << 18  # bytes of rows, were all of them wanted: with less a round costs more than what it lets begin sooner


def partitions_a_round(parts: Partitioning, row_bytes: int) -> int:
    """Return how many partitions of an owner are exchanged in one round: one, or more of them if they are small. Local.

    It depends on the partitions alone, so that ranks need not tell each other.
    """
    largest = -(-parts.rows // parts.partitions) * row_bytes
    return max(1, ROUND // max(1, largest))


def round_edges(parts: Partitioning, owner: int, each: int):
    """Return where rounds of ``each`` partitions cut an owner's table: each one's first row, and the end. Local."""
    sizes = [len(parts.rows_of_partition(p)) for p in parts.partitions_of(owner)]
    ends = np.cumsum([0, *sizes])
    return np.append(ends[:-1:each], ends[-1])


def cut(numbers, edges, first: int = 0) -> list[slice]:
    """Return, for each round, the slice of rows of one owner's table that travels in it. Local.

    numbers: (k,) int64 rows of the table, rising.  edges: of ``round_edges``.  first: what to count the slices from.
    """
    ends = (first + np.searchsorted(numbers, edges)).tolist() if len(edges) > 2 else [first, first + len(numbers)]
    return [slice(a, b) for a, b in pairwise(ends[:len(edges)])]


def ahead(begun: Iterable[T]) -> Iterator[T]:
    """Yield what ``begun`` begins, each only after the next has been begun too. Local.

    ``for pending in ahead(start(k) for k in rounds): pending.wait(); ...`` has one round under way while it works.
    """
    waiting: list[T] = []
    for item in begun:
        waiting.append(item)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting
