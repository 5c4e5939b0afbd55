"""A cache of kernel rows, which replaces the least recently used. A row: K of a sample with this rank's samples."""

import mmap

import numpy as np

from kernels.svm import fast


def _in_small_pages(rows: int, columns: int):
    """Return an array (rows, columns) float64, for which Linux allocates small pages when they are written.

    ``np.empty`` asks for huge pages. To find some hundreds of them, Linux moved other memory for up to 2 s.
    """
    memory = mmap.mmap(-1, max(8 * rows * columns, 1), access=mmap.ACCESS_COPY)  # its own, not shared: a third faster
    return np.frombuffer(memory, np.float64, rows * columns).reshape(rows, columns)


class RowCache:
    """The rows of at least two samples. Local. All ranks keep rows of the same samples, each rank with its own columns.

    capacity: rows.  slots: for every sample the slot of its row, or -1.  evaluations: the number of computed entries. A
    row covers the active samples. It is extended when more samples become active again.
    """

    def __init__(self, samples, count: int, capacity: int):
        self.samples, self.store, self.evaluations = samples, samples.store, 0
        self.vectors, self.rows = self.store.shelf(capacity), _in_small_pages(capacity, len(samples))
        self.lengths, self.own = np.zeros(capacity, np.int64), np.empty(capacity)
        self.slots, self.numbers = np.full(count, -1), np.empty(capacity, np.int64)
        self.used, self.clock, self.kept = np.empty(capacity, np.int64), 0, 0

    def touch(self, numbers):
        """Mark the samples in the cache as most recently used, in this order; return the others."""
        slots = self.slots[numbers]
        self.used[slots[slots >= 0]] = self.clock + np.flatnonzero(slots >= 0)
        self.clock += len(numbers)
        return numbers[slots < 0]

    def put(self, numbers, vectors):
        """Replace the least recently used samples by these, and compute their rows in one pass."""
        more = min(len(numbers), len(self.rows) - self.kept)
        spare = len(numbers) - more
        old = np.argsort(self.used[:self.kept])[:spare] if spare else self.numbers[:0]
        self.slots[self.numbers[old]] = -1
        slots = np.concatenate([np.arange(self.kept, self.kept + more), old])
        self.kept += more
        self.slots[numbers], self.numbers[slots], self.lengths[slots] = slots, numbers, 0
        self.used[slots] = self.clock + np.arange(len(slots))
        self.clock += len(slots)
        for slot, vector in zip(slots.tolist(), vectors):
            self.vectors[slot] = vector
        self.own[slots] = self.store.of(vectors).diagonal(len(vectors))
        self._extend(slots)

    def row(self, number: int):
        """Return (K of the sample with each active sample, K with itself). The sample must be in the cache."""
        slot = self.slots[number]
        if self.lengths[slot] < self.samples.active:
            self._extend(np.array([slot]))
        return self.rows[slot], self.own[slot]

    def add_to(self, errors, numbers, factors):
        """Add factor * row of each sample in turn to the errors of the active samples. All must be in the cache."""
        slots = self.cover(numbers)
        with self.samples.divided:
            fast.add_rows(errors, self.rows, slots, factors, 0, self.samples.active)

    def columns(self, numbers, places):
        """Return K of this rank's active samples at ``places`` with the samples ``numbers``, all in the cache: (p, n).
        """
        slots = self.cover(numbers)
        with self.samples.divided:
            return fast.columns(self.rows, slots, places)

    def among(self, numbers, some, values):
        """Write K of some of these samples, by index, with all of them to values[some]. All are in the cache."""
        vectors = self.store.taken(self.vectors, self.slots[numbers])
        if len(some):
            self.store.of(vectors).fill(vectors, some, np.zeros(len(numbers), np.int64), len(numbers), values)
        self.evaluations += len(some) * len(numbers)

    def cover(self, numbers):
        """Return the slots of samples in the cache, after extending their rows to all active samples."""
        slots = self.slots[numbers]
        short = slots[self.lengths[slots] < self.samples.active]
        if len(short):
            self._extend(short)
        return slots

    def _extend(self, slots):
        self.fill(self.vectors, slots, self.lengths, self.rows)
        self.lengths[slots] = self.samples.active

    def between(self, i: int, j: int) -> float:
        """Return K of two samples in the cache."""
        return self.store.value(self.vectors[self.slots[i]], self.vectors[self.slots[j]])

    def fill(self, vectors, slots, starts, rows):
        """Compute rows[s] of vectors[s], from starts[s] to the last active sample, for each s in ``slots``."""
        with self.samples.divided:
            self.store.fill(vectors, slots, starts, self.samples.active, rows)
        self.evaluations += int((self.samples.active - starts[slots]).sum())

    def swap(self, pairs):
        """Swap the columns of each pair in turn: (k, 2) indices, i < j. A row with i but not j is cut before i."""
        fast.swap_columns(self.rows[:self.kept], self.lengths, pairs)
