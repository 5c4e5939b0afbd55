"""Kernel rows: K of a sample with each of this rank's samples. The rows used last are kept."""

import numpy as np

from kernels.svm import fast


class RowCache:
    """Rows of at least two samples. Local; all ranks keep rows of the same samples, each its own columns of them.

    capacity: rows.  evaluations: entries that were computed.  A row is computed as far as the active samples go, and
    further when more are active again.
    """

    def __init__(self, kernel, samples, width: int, capacity: int):
        self.numbers, self.samples, self.evaluations = fast.numbers_of(kernel), samples, 0
        self.vectors, self.rows = np.empty((capacity, width)), np.empty((capacity, len(samples)))
        self.lengths, self.own = np.zeros(capacity, np.int64), np.empty(capacity)
        self.slots: dict[int, int] = {}

    def __contains__(self, number: int) -> bool:
        return number in self.slots

    def touch(self, number: int) -> bool:
        """Return whether a sample is here; if so, it is now the one used last."""
        if number in self.slots:
            self.slots[number] = self.slots.pop(number)
        return number in self.slots

    def put(self, number: int, vector):
        """Keep a sample's features in the place of those used longest ago."""
        slot = len(self.slots) if len(self.slots) < len(self.rows) else self.slots.pop(next(iter(self.slots)))
        self.slots[number], self.lengths[slot], self.vectors[slot] = slot, 0, vector
        self.own[slot] = fast.kernel_value(*self.numbers, vector, vector)

    def row(self, number: int):
        """Return (K of the sample with each active sample, K with itself). The sample was put."""
        slot = self.slots[number]
        active, length = self.samples.active, self.lengths[slot]
        if length < active:
            self.fill(self.vectors[slot:slot + 1], self.lengths[slot:slot + 1], active, self.rows[slot:slot + 1])
            self.lengths[slot] = active
        return self.rows[slot], self.own[slot]

    def between(self, i: int, j: int) -> float:
        """Return K of two samples that were put."""
        return fast.kernel_value(*self.numbers, self.vectors[self.slots[i]], self.vectors[self.slots[j]])

    def fill(self, vectors, starts, stop: int, rows):
        """Compute kernel rows from ``starts`` to ``stop``, and count."""
        fast.fill_kernel_rows(*self.numbers, vectors, self.samples.blocks, starts, stop, rows)
        self.evaluations += int((stop - starts).sum())

    def swap(self, i: int, j: int):
        """Exchange the columns i < j. A row that has i and not j ends before i now."""
        used = len(self.slots)
        rows, lengths = self.rows[:used], self.lengths[:used]
        both = lengths > j
        kept = rows[both, i]
        rows[both, i] = rows[both, j]
        rows[both, j] = kept
        lengths[(lengths > i) & ~both] = i
