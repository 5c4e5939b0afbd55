"""Sequential minimal optimisation with samples divided among ranks. The same bits as ``refimpl.plain.svm``.

Every rank keeps all weights and computes every change to them. The errors of a sample are known only to its own rank.
In an iteration the ranks agree on a pair of samples. If a sample is not in the caches, its owner sends its features.
Then each rank updates the errors of its own samples.
"""

import math
import time
from dataclasses import dataclass

import numpy as np

from kernels.svm import fast
from kernels.svm.definition import KernelFunction
from kernels.svm.nearest import find_nearest, merge_nearest
from models.svm.cache import RowCache
from models.svm.storage import VectorPacking, stored
from models.svm.traffic import OneRank, SvmTraffic


class Stopwatch:
    """Processor seconds that this process has spent in its ``with`` blocks. Local."""

    def __init__(self):
        self.seconds, self.began = 0.0, 0.0

    def __enter__(self):
        self.began = time.process_time()

    def __exit__(self, *problem):
        self.seconds += time.process_time() - self.began


class Samples:
    """The samples whose number modulo ``size`` is ``rank``. Local.

    rows: (n, width) float64, an array or CSR, of all samples.  labels: (n,) of +1 and -1.
    active: the number of active samples, which come first.  ids, y, state, error, diagonal: of each, in this order.
    divided: the time of work that is divided among the ranks, because each does it for its own samples.
    """

    def __init__(self, rows, labels, kernel, rank: int, size: int):
        self.ids = np.arange(rank, len(labels), size)
        own = rows[self.ids]
        self.rank, self.size, self.active, self.divided = rank, size, len(self.ids), Stopwatch()
        self.y = labels[self.ids].astype(float)
        self.state, self.error = np.where(self.y > 0, fast.GROWS, fast.SHRINKS).astype(np.uint8), -self.y
        self.store, self.place = stored(own, kernel), np.arange(len(self.ids))
        self.diagonal = self.store.diagonal(len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def places(self, numbers):
        """Return the current indices of these samples of this rank."""
        return self.place[numbers // self.size]

    def vectors(self, numbers):
        """Return the features of these samples of this rank."""
        return self.store.vectors(self.places(numbers))

    def set_states(self, numbers, alpha, c: float):
        """Store for this rank's samples among ``numbers`` whether α y can grow or shrink. alpha: (n,), all weights."""
        fast.set_states(self.state, self.y, self.place, np.asarray(numbers), alpha, c, self.rank, self.size)

    def deactivate(self, places, cache):
        """Move the samples at these rising indices behind the active ones, also in the cache's rows."""
        last = self.active - 1 - np.arange(len(places))
        pairs = np.column_stack([places[::-1], last])[places[::-1] != last]
        self.active -= len(places)
        for array in (self.ids, self.y, self.state, self.error, self.diagonal):
            fast.swap_places(array, pairs)
        self.store.swap(pairs)
        self.place[self.ids // self.size] = np.arange(len(self.ids))
        cache.swap(pairs)


SELECTIONS = ("first", "second")
ELIMINATIONS = ("none", "single", "multi", "approximate")
CHUNK = 256
"""The number of samples whose features are sent together when errors are reconstructed."""
BLOCK_ROWS = 5
"""The most samples in a block, divided by the number of samples that enter at each end of the gap."""
AHEAD = 4
"""The number of samples at each end whose rows are computed together with a missing row. They will be needed soon, and
features are read from memory once for all of them.
"""
LIMIT = 10_000_000
"""The most iterations of a training (or 100 times the samples, if this is more); then it stops, as in libsvm."""
NO_SLOTS = np.empty(0, np.int64)


@dataclass(frozen=True)
class SvmOptions:
    """How a machine is trained.

    c: the largest weight.  tolerance: τ; training ends when the gap is at most 2 τ.  selection: of the pair's second
    sample, by its error (first order) or by the gain of the step (second order).  elimination, every ``period``
    iterations (None: half as many as samples, and at least 1,000), of samples that cannot be an end of the gap now:
    "single" stops it after the first reconstruction, "multi" continues it, "approximate" never reconstructs, so its
    result may be wrong.
    cache: bytes for kernel rows.  block: samples at each end of the gap that are changed together in a round; 1: a
    pair.
    """

    c: float = 1.0
    tolerance: float = 1e-3
    selection: str = "second"
    elimination: str = "multi"
    period: int | None = None
    cache: int = 200 << 20
    block: int = 1


def capacity_of(options: SvmOptions, packing, count: int, size: int) -> int:
    """Return how many rows each of ``size`` ranks can keep, of ``count`` samples. Local."""
    largest, width = -(-count // size), -(-int(packing.counts(np.arange(count)).sum()) // count)
    least = BLOCK_ROWS * options.block if options.block > 1 else 2
    return min(max(options.cache // (8 * (largest + width)), least), count)


class Solver:
    """The training of a machine for two classes. The constructor is local; ``train`` is collective over ``ranks``.

    rows: (n, width) float64, an array or CSR; labels: (n,) of +1 and -1; both are the same on all ranks.  alpha: (n,),
    the weights.  iterations, evaluations, traffic: counters of the work.  repeated: kernel values that every rank
    computes.
    whole: time of ``train``; ``samples.divided`` is a part of it.  objective: after training
    Σ α - 1/2 Σ Σ α α y y K, the exact sum of its terms rounded once; None if nothing was reconstructed.
    """

    def __init__(self, rows, labels, kernel: KernelFunction, options: SvmOptions, ranks=None):
        self.ranks, self.options, self.kernel = ranks or OneRank(), options, kernel
        self.samples = Samples(rows, labels, kernel, self.ranks.rank, self.ranks.size)
        self.labels, self.alpha, self.iterations = labels.astype(float), np.zeros(len(labels)), 0
        self.objective: float | None = None
        packing = VectorPacking(rows)
        self.traffic = SvmTraffic(self.ranks, packing, len(labels))
        capacity = capacity_of(options, packing, len(labels), self.ranks.planned)
        self.cache = RowCache(self.samples, len(labels), capacity)
        self.eliminates, self.gains = options.elimination != "none", np.empty(len(self.samples))
        self.ahead, self.last_elimination = min(AHEAD, capacity // 8), 0
        self.period = options.period or max(1000, len(labels) // 2)  # an elimination moves columns of all kept rows
        self.whole, self.repeated, self.limit = Stopwatch(), 0, max(LIMIT, 100 * len(labels))

    @property
    def evaluations(self) -> int:
        """The number of kernel values that this rank has computed."""
        return self.cache.evaluations

    def train(self) -> float:
        """Close the gap over all samples; return the bias. Collective."""
        with self.whole:
            while True:
                self._descend()
                if self.options.elimination != "approximate":
                    self._reconstruct()
                self.samples.active = len(self.samples)
                up, _, low, _ = self._ends()
                if self.options.elimination == "approximate":
                    return (up + low) / 2
                if low - up <= 2 * self.options.tolerance:
                    self.objective = self._objective()
                    return (up + low) / 2
                self.eliminates &= self.options.elimination == "multi"

    def _descend(self):
        while True:
            up, i, low, j = self._ends()
            if self._closed(up, low):
                return
            self._eliminate(up, low)
            self._need([i])
            if self.options.selection == "second":
                low, j = self._partner(up, i)
            self._need([j])
            self._improve(up, i, low, j)

    def _closed(self, up, low):
        """Return whether the gap is closed. Raises ValueError, on all ranks, if it does not close."""
        if self.iterations >= self.limit and low - up > 2 * self.options.tolerance:
            raise ValueError(f"the gap is still {low - up:.3g} after {self.iterations:,} iterations: scale the "
                             "features, for example to mean 0 and variance 1, or choose a larger "
                             "tolerance or a smaller C")
        return low - up <= 2 * self.options.tolerance

    def _eliminate(self, up, low):
        """If it is time, eliminate samples that cannot be an end of the gap now."""
        periods = self.iterations // self.period
        if self.eliminates and periods > self.last_elimination:
            s, self.last_elimination = self.samples, periods
            with s.divided:
                s.deactivate(fast.find_eliminated(s.error, s.state, s.active, up, low), self.cache)

    def _ends(self):
        """Return F and the number of the sample at both ends of the gap. Collective."""
        s = self.samples
        with s.divided:
            mine = fast.find_ends(s.error, s.state, s.ids, s.active)
        found = self.traffic.gather(np.array(mine))
        up, i = min((f, i) for f, i, _, _ in found.tolist())
        low, j = min((-f, j) for _, _, f, j in found.tolist())
        return up, int(i), -low, int(j)

    def _partner(self, up, i):
        s, (row, own) = self.samples, self.cache.row(i)
        with s.divided:
            mine = fast.find_partner(s.error, s.state, s.ids, s.active, up, row, s.diagonal, own, self.gains)
        _, j, low = min((-gain, j, f) for gain, j, f in self.traffic.gather(np.array(mine)).tolist())
        return low, int(j)

    def _objective(self):
        """Return the dual objective, 1/2 Σ α (1 - y F), from the errors of all samples. Collective."""
        s = self.samples
        return 0.5 * math.fsum(self.traffic.gather_terms(s.ids, self.alpha[s.ids] * (1.0 - s.y * s.error)))

    def _need(self, numbers):
        """Put the rows of samples into the cache; if one is missing, also rows that will be needed soon. Collective."""
        missing = self.cache.touch(np.asarray(numbers)).tolist()
        if missing:
            soon = [n for _, end in self._nearest(self.ahead, True) for n in end.tolist()] if self.ahead else []
            missing = [n for n in dict.fromkeys(soon) if n not in missing] + missing  # the last one is evicted last
            self.cache.put(missing, self.traffic.features(np.array(missing), self.samples.vectors))

    def _nearest(self, count, outside=False):
        """Return (F, numbers) and (-F, numbers) of the samples nearest to both ends of the gap, sorted. Collective.

        count: the most of each.  outside: only samples outside the cache.
        """
        s, slots = self.samples, self.cache.slots if outside else NO_SLOTS
        with s.divided:
            mine = find_nearest(s.error, s.state, s.ids, slots, s.active, count)
        offered = self.traffic.gather(mine)
        found = merge_nearest(offered) if len(offered) > 1 else offered[0]
        ends = (end[end[:, 1] < np.inf] for end in found)
        return [(end[:, 0].copy(), end[:, 1].astype(np.int64)) for end in ends]

    def _improve(self, up, i, low, j):
        """Move α y from sample j to sample i by the best step with which both weights stay in [0, c]."""
        near, own = self.cache.row(i)
        far, other = self.cache.row(j)
        curvature = own + other - 2.0 * self.cache.between(i, j)
        changes = (i, 1.0), (j, -1.0)
        room = [self.options.c - self.alpha[n] if sign * self.labels[n] > 0 else self.alpha[n] for n, sign in changes]
        step = min((low - up) / max(curvature, fast.LEAST_CURVATURE), *room)
        with self.samples.divided:
            fast.move_errors(self.samples.error, near, far, step, self.samples.active)
        for (n, sign), limit in zip(changes, room):
            end = self.options.c if sign * self.labels[n] > 0 else 0.0
            self.alpha[n] = end if step == limit else self.alpha[n] + sign * self.labels[n] * step
        self.samples.set_states((i, j), self.alpha, self.options.c)
        self.iterations += 1

    def _reconstruct(self):
        """Compute the errors of eliminated samples again, from all weights above 0 in sample order. Collective."""
        s, first = self.samples, self.samples.active
        s.active = len(s)
        if not self.traffic.gather(np.array([float(s.active - first)])).any():
            return
        s.error[first:] = -s.y[first:]
        supports = np.flatnonzero(self.alpha)
        for start in range(0, len(supports), CHUNK):
            chunk = supports[start:start + CHUNK]
            slots = self.cache.slots[chunk]
            kept, factors = slots >= 0, self.alpha[chunk] * self.labels[chunk]
            self.cache.cover(chunk[kept])  # in one pass
            rows = self._rows_beyond(first, chunk[~kept])
            slots[~kept] = np.arange(len(rows))
            for run in np.split(np.arange(len(chunk)), 1 + np.flatnonzero(np.diff(kept))):  # cached rows, or others
                with s.divided:
                    fast.add_rows(s.error, self.cache.rows if kept[run[0]] else rows, slots[run], factors[run], first,
                                  s.active)

    def _rows_beyond(self, first, numbers):
        """Return the kernel rows of samples outside the cache, from index ``first`` on. Collective."""
        rows = np.empty((len(numbers), len(self.samples)))
        if len(numbers):
            vectors = self.samples.store.shelf(len(numbers))
            for place, vector in enumerate(self.traffic.features(numbers, self.samples.vectors)):
                vectors[place] = vector
            self.cache.fill(vectors, np.arange(len(numbers)), np.full(len(numbers), first), rows)
        return rows
