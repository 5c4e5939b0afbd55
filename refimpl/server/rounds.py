"""Rounds of an exchange of rows: while a rank works on the rows of one round, the next round is in flight.

An owner's partitions are exchanged one after the other, small ones together. So more partitions save time: the term
θ1 / P of the partition search (``refimpl.plan.partitions.search``).
"""

from itertools import pairwise
from typing import Iterable, Iterator, TypeVar

import numpy as np

from refimpl.server.partition import Partitioning

Begun = TypeVar("Begun")

ROUND = 1 << 18  # bytes of all rows of a round; smaller rounds cost more than the earlier start gains
FIRST = 1 << 14  # bytes of a first message of row numbers; if few, the rows fit into it, too: see ``row_numbers``


def partitions_a_round(parts: Partitioning, row_bytes: int) -> int:
    """Return the number of an owner's partitions in one round: one, or more if they are small. Local.

    It depends only on the partitions, so all ranks compute the same number.
    """
    largest = -(-parts.rows // parts.partitions) * row_bytes
    return max(1, ROUND // max(1, largest))


def round_edges(parts: Partitioning, owner: int, each: int):
    """Return the first row of each round of ``each`` partitions in an owner's table, and the end. Local."""
    ends = np.cumsum([0, *map(len, parts.ranges_of(owner))])
    return np.append(ends[:-1:each], ends[-1])


def cut(numbers, edges, first: int = 0) -> list[slice]:
    """Return for each round the slice of an owner's rows that travels in it. Local.

    numbers: (k,) int64 rows of the table, rising.  edges: of ``round_edges``.  first: added to the slices.
    """
    ends = (first + np.searchsorted(numbers, edges)).tolist() if len(edges) > 2 else [first, first + len(numbers)]
    return [slice(a, b) for a, b in pairwise(ends[:len(edges)])]


def ahead(begun: Iterable[Begun]) -> Iterator[Begun]:
    """Yield the items of ``begun``, each only after the next one has been taken from it. Local.

    ``for pending in ahead(start(k) for k in rounds): pending.wait(); ...`` has one round in flight while it works.
    """
    waiting: list[Begun] = []
    for item in begun:
        waiting.append(item)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting
