"""Which rank owns which rows: P partitions of a sparse variable over N ranks, as plain data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

SCHEMES = ("contiguous", "interleaved")


@dataclass(frozen=True)
class Partitioning:
    """P partitions of ``rows`` rows. owners[p]: the rank that stores, serves and updates partition p.

    contiguous:  partition p holds rows [p R // P, (p + 1) R // P).
    interleaved: partition p holds rows p, p + P, p + 2P, ...  Frequent words have small numbers: this spreads them.
    An owner keeps its partitions in one table, one after the other; a *local* row number counts in that table.
    """

    rows: int
    owners: tuple[int, ...]
    ranks: int
    scheme: str = "contiguous"

    def __post_init__(self):
        if self.scheme not in SCHEMES:
            raise ValueError(f"no partition scheme {self.scheme!r}; there are {', '.join(SCHEMES)}")
        if not self.owners or not all(0 <= owner < self.ranks for owner in self.owners):
            raise ValueError(f"owners {self.owners} are not ranks of {self.ranks}; give each partition a rank")

    @classmethod
    def round_robin(cls, rows: int, partitions: int, ranks: int, scheme: str = "contiguous") -> "Partitioning":
        """Deal the partitions, which are equal, to the ranks in turn: each goes to a least loaded one."""
        if partitions < 1:
            raise ValueError(f"{partitions} partitions: give at least 1")
        return cls(rows, tuple(p % ranks for p in range(partitions)), ranks, scheme)

    @property
    def partitions(self) -> int:
        return len(self.owners)

    def rows_of_partition(self, partition: int) -> range:
        """Return the global row numbers of a partition."""
        if self.scheme == "interleaved":
            return range(partition, self.rows, self.partitions)
        return range(partition * self.rows // self.partitions, (partition + 1) * self.rows // self.partitions)

    def partitions_of(self, rank: int) -> list[int]:
        """Return the partitions that a rank owns, in the order in which its table holds them."""
        return [p for p, owner in enumerate(self.owners) if owner == rank]

    def rows_owned(self, rank: int) -> int:
        """Return how many rows a rank's table has."""
        return sum(len(self.rows_of_partition(p)) for p in self.partitions_of(rank))

    def global_rows(self, rank: int):
        """Return the global number of each row of a rank's table: (rows owned,) int64."""
        ids = [np.arange(r.start, r.stop, r.step) for r in map(self.rows_of_partition, self.partitions_of(rank))]
        return np.concatenate([np.empty(0, np.int64), *ids])

    @cached_property
    def _starts(self):
        """First row of each partition (contiguous), and the end."""
        return np.array([p * self.rows // self.partitions for p in range(self.partitions + 1)], np.int64)

    @cached_property
    def _places(self):
        """For each partition: its position when ordered by (owner, partition), and its first local row."""
        position, first = np.empty(self.partitions, np.int64), np.empty(self.partitions, np.int64)
        count = 0
        for rank in range(self.ranks):
            offset = 0
            for p in self.partitions_of(rank):
                position[p], first[p] = count, offset
                count, offset = count + 1, offset + len(self.rows_of_partition(p))
        return position, first

    def route(self, ids) -> "Route":
        """Return how to send sorted global row numbers to their owners. ids: (k,) int64, strictly increasing. Local."""
        if self.scheme == "interleaved":
            index, partition = np.divmod(ids, self.partitions)
        else:
            partition = np.searchsorted(self._starts, ids, side="right") - 1
            index = ids - self._starts[partition]
        position, first = self._places
        place, local = position[partition], first[partition] + index
        order = None
        if (place[1:] < place[:-1]).any():
            order = np.argsort(place, kind="stable")
            local, partition = local[order], partition[order]
        counts = np.bincount(np.asarray(self.owners, np.int64)[partition], minlength=self.ranks)
        return Route(local, np.concatenate([[0], np.cumsum(counts)]), order)


@dataclass(frozen=True)
class Route:
    """Row numbers sorted by owner. local: (k,) int64 rows in the owners' tables, increasing for each owner.

    bounds: owner o's are local[bounds[o]:bounds[o + 1]].  order: local[i] is the ids[order[i]]; None if order kept.
    """

    local: np.ndarray
    bounds: np.ndarray
    order: np.ndarray | None

    def part(self, owner: int) -> slice:
        """Return the slice of an owner's rows."""
        return slice(int(self.bounds[owner]), int(self.bounds[owner + 1]))

    @property
    def counts(self):
        """Rows for each owner: (N,) int64."""
        return np.diff(self.bounds)

    def sort(self, rows):
        """Return rows, given in the order of the ids, in the order of the owners."""
        return rows if self.order is None else rows[self.order]

    def unsort(self, rows):
        """Return rows, given in the order of the owners, in the order of the ids."""
        if self.order is None:
            return rows
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(self.order))
        return rows[inverse]
