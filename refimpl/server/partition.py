"""The owners of rows: P partitions of a sparse variable over N ranks, as plain data."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kernels import take_rows
from refimpl.gradients.codecs import IDENTITY, Codec, codec_of

SCHEMES = ("contiguous", "interleaved")
MOST_PARTITIONS = 1 << 16
"""The most partitions of a variable. Each costs a few microseconds in every loop over partitions."""


@dataclass(frozen=True)
class Partitioning:
    """P partitions of ``rows`` rows. owners[p]: the rank that stores, serves and updates partition p.

    contiguous:  partition p holds rows [p R // P, (p + 1) R // P).
    interleaved: partition p holds rows p, p + P, p + 2P, ...  This spreads frequent words, which have small numbers.
    An owner keeps its partitions one after the other in one table. A *local* row number is an index into this table.
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
        """Assign equal partitions to the ranks in turn."""
        if partitions < 1:
            raise ValueError(f"{partitions} partitions: give at least 1")
        if partitions > MOST_PARTITIONS:
            raise ValueError(f"{partitions:,} partitions: give at most {MOST_PARTITIONS:,}")
        return cls(rows, tuple(p % ranks for p in range(partitions)), ranks, scheme)

    @classmethod
    def dealt(cls, rows: int, partitions: int, load, scheme: str = "contiguous") -> "Partitioning":
        """Assign equal partitions to the ranks in turn, and the remaining ones to the least loaded ranks.

        load[r]: bytes that rank r already has.
        """
        in_turn = cls.round_robin(rows, partitions, len(load), scheme)
        whole = partitions - partitions % len(load)
        least = sorted(range(len(load)), key=lambda rank: (load[rank], rank))
        return cls(rows, in_turn.owners[:whole] + tuple(least[:partitions - whole]), len(load), scheme)

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.owners)

    def rows_of_partition(self, partition: int) -> range:
        """Return the global row numbers of a partition."""
        if self.scheme == "interleaved":
            return range(partition, self.rows, self.partitions)
        return range(partition * self.rows // self.partitions, (partition + 1) * self.rows // self.partitions)

    @property
    def sizes(self):
        """The number of rows of each partition: (P,) int64."""
        if self.scheme == "interleaved":
            return (self.rows - np.arange(self.partitions) + self.partitions - 1) // self.partitions
        return np.diff(self._starts)

    def partitions_of(self, rank: int) -> list[int]:
        """Return the partitions that a rank owns, in the order of its table."""
        return [p for p, owner in enumerate(self.owners) if owner == rank]

    def ranges_of(self, rank: int) -> list[range]:
        """Return the global row numbers of a rank's table, in its order: a range for each partition."""
        return list(map(self.rows_of_partition, self.partitions_of(rank)))

    def rows_owned(self, rank: int) -> int:
        """Return the number of rows in a rank's table."""
        return sum(map(len, self.ranges_of(rank)))

    def global_rows(self, rank: int):
        """Return the global number of each row of a rank's table: (rows owned,) int64."""
        return numbers_in(self.ranges_of(rank))

    @cached_property
    def _starts(self):
        """First row of each partition (contiguous), and the end."""
        return np.array([p * self.rows // self.partitions for p in range(self.partitions + 1)], np.int64)

    @cached_property
    def first_row(self) -> list[int]:
        """The first row of each partition in its owner's table."""
        ends = [0] * self.ranks
        first = []
        for partition, owner in enumerate(self.owners):
            first.append(ends[owner])
            ends[owner] += len(self.rows_of_partition(partition))
        return first

    def locate(self, ids):
        """Return (partition, index in it) of row numbers. ids: (k,) int64. Local."""
        if self.scheme == "interleaved":
            index, partition = np.divmod(ids, self.partitions)
        else:
            partition = np.searchsorted(self._starts, ids, side="right") - 1
            index = ids - self._starts[partition]
        return partition, index

    def owners_of(self, ids):
        """Return the owner of each row: (k,) int64. Local."""
        return np.asarray(self.owners, np.int64)[self.locate(ids)[0]]

    def counts(self, ids):
        """Return the number of these rows that each rank owns: (N,) int64. Local."""
        return np.bincount(self.owners_of(ids), minlength=self.ranks)

    def route(self, ids) -> "Route":
        """Return row numbers by owner, as rows of owners' tables. ids: (k,) int64, each once. Local."""
        partition, index = self.locate(ids)
        owner, numbers = np.asarray(self.owners, np.int64)[partition], np.asarray(self.first_row)[partition] + index
        order = None
        if (owner[1:] < owner[:-1]).any() or (numbers[1:] < numbers[:-1])[owner[1:] == owner[:-1]].any():
            order = np.lexsort((numbers, owner))
            numbers = numbers[order]
        return Route(numbers, np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=self.ranks))]), order)


def numbers_in(ranges: list[range]):
    """Return the row numbers in ranges, in their order: (k,) int64. Local."""
    return np.concatenate([np.empty(0, np.int64), *(np.arange(r.start, r.stop, r.step) for r in ranges)])


def row_bytes(variable, codec: Codec = codec_of(IDENTITY)) -> int:
    """Return the bytes of one row of a sparse variable; codec: of a row of its encoded gradient. Local."""
    return variable.shape[1] * np.dtype(codec.dtype_of(variable.dtype)).itemsize


@dataclass(frozen=True)
class Route:
    """Row numbers in the order in which they are sent: by owner, and rising within each owner's table.

    numbers: (k,) int64.  bounds: numbers[bounds[o]:bounds[o + 1]] belong to owner o.
    order: numbers[j] belongs to ids[order[j]]; None: the order is the same.
    """

    numbers: np.ndarray
    bounds: np.ndarray
    order: np.ndarray | None

    def of(self, owner: int):
        """Return the numbers of an owner: (n,) int64, rows of its table."""
        return self.numbers[self.bounds[owner]:self.bounds[owner + 1]]

    def sort(self, rows, where: slice = slice(None)):
        """Return the rows of numbers[where]. rows: in the order of the ids."""
        return rows[where] if self.order is None else take_rows(rows, self.order[where])

    def unsort(self, rows):
        """Return rows, given in the order of the numbers, in the order of the ids."""
        if self.order is None:
            return rows
        inverse = np.empty_like(self.order)
        inverse[self.order] = np.arange(len(self.order))
        return take_rows(rows, inverse)
