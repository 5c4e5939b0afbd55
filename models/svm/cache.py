"""Kernel rows: K of a sample with each of this rank's samples. The rows used last are kept."""

import numpy as np

from kernels.svm import fast


class RowCache:
    """Rows of at least two samples. Local; all ranks keep rows of the same samples, each its own columns of them.

    capacity: rows.  here: of each of all samples, whether its row is kept.  evaluations: entries that were computed.
    A row is computed as far as the active samples go, and further when more are active again.
    """

    def __init__(self, kernel, samples, count: int, width: int, capacity: int):
        self.numbers, self.samples, self.evaluations = fast.numbers_of(kernel), samples, 0
        self.vectors, self.rows = np.empty((capacity, width)), np.empty((capacity, len(samples)))
        self.lengths, self.own = np.zeros(capacity, np.int64), np.empty(capacity)
        self.slots: dict[int, int] = {}
        self.here = np.zeros(count, bool)

    def touch(self, number: int) -> bool:
        """Return whether a sample is here; if so, it is now the one used last."""
        if self.here[number]:
            self.slots[number] = self.slots.pop(number)
        return bool(self.here[number])

    def put(self, numbers: list[int], vectors):
        """Keep samples' features in the place of those used longest ago, and compute their rows in one pass."""
        for number, vector in zip(numbers, vectors):
            slot = len(self.slots) if len(self.slots) < len(self.rows) else self._drop()
            self.here[number] = True
            self.slots[number], self.lengths[slot], self.vectors[slot] = slot, 0, vector
            self.own[slot] = fast.kernel_value(*self.numbers, vector, vector)
        self._extend([self.slots[number] for number in numbers])

    def _drop(self) -> int:
        oldest = next(iter(self.slots))
        self.here[oldest] = False
        return self.slots.pop(oldest)

    def row(self, number: int):
        """Return (K of the sample with each active sample, K with itself). The sample was put."""
        slot = self.slots[number]
        if self.lengths[slot] < self.samples.active:
            self._extend([slot])
        return self.rows[slot], self.own[slot]

    def _extend(self, slots):
        self.fill(self.vectors, np.array(slots), self.lengths, self.rows)
        self.lengths[slots] = self.samples.active

    def between(self, i: int, j: int) -> float:
        """Return K of two samples that were put."""
        return fast.kernel_value(*self.numbers, self.vectors[self.slots[i]], self.vectors[self.slots[j]])

    def fill(self, vectors, slots, starts, rows):
        """Compute rows[s] of vectors[s], from starts[s] to the last active sample, for each s of ``slots``; count."""
        fast.fill_kernel_rows(*self.numbers, vectors, slots, self.samples.blocks, starts, self.samples.active, rows)
        self.evaluations += int((self.samples.active - starts[slots]).sum())

    def swap(self, pairs):
        """Exchange the columns of each pair in turn: (k, 2) places, i < j. Rows that have i and not j end before i."""
        fast.swap_columns(self.rows[:len(self.slots)], self.lengths, pairs)
