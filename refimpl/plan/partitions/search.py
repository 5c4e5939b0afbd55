"""Equals plain/strategies/search.py: finds the number of partitions P, the minimum of a curve through measured steps.

    t(P) = theta0 + theta1 / P + theta2 P       seconds of a step

Start at the number of machines. Double P while steps get faster. Then halve the smallest P until steps get slower:

    start 8, optimum 11:    8  16  32 (slower)  4 (slower)        then the curve gives 11, which is measured last

The paper takes the lowest point of the curve (docs/paper.md, Mechanisms). But owners hold whole partitions, so the true
t(P) is not smooth: the busiest of N owners has ceil(P / N) / P of the rows. Therefore this P is measured, too, and the
fastest measured P is taken. Every rank is given the same measured times, so every rank proposes the same P.
"""

from dataclasses import dataclass, field

import numpy as np

from refimpl.plain.strategies.search import fit

FEWEST = 3  # samples that a curve of three parameters needs


@dataclass(frozen=True)
class Fit:
    """t(P) = theta0 + theta1 / P + theta2 P, in seconds; theta1 and theta2 are not negative."""

    theta0: float
    theta1: float
    theta2: float

    def seconds(self, partitions):
        """Return t(P) for one P or an array of them. Local."""
        return self.theta0 + self.theta1 / partitions + self.theta2 * partitions

    def best(self, counts) -> int:
        """Return the number of partitions in ``counts`` with the smallest t(P); of equal ones the first. Local."""
        return int(counts[np.argmin(self.seconds(np.asarray(counts)))])


def fit_curve(samples: dict[int, float]) -> Fit:
    """Return the least-squares curve through samples, P -> seconds, with theta1 and theta2 not negative. Local.

    Raises ValueError for fewer than three samples.
    """
    if len(samples) < FEWEST:
        raise ValueError(f"{len(samples)} samples of P: a curve of three parameters needs at least {FEWEST}")
    return Fit(*fit(samples))


@dataclass
class PartitionSearch:
    """The search for P. Call ``propose``, try this P, call ``measured`` or ``exceeded``; after None, call ``best``.

    start: the first P, the number of machines.  largest: the largest useful P (the rows of the largest variable).
    samples: P -> mean seconds of a step, in the order of measurement.
    least: the lower limit; a P that takes too much memory raises it.  said: the P that the curve proposed.
    """

    start: int
    largest: int
    samples: dict[int, float] = field(default_factory=dict)
    least: int = 1
    said: int | None = None
    too_large: list[int] = field(default_factory=list)

    def __post_init__(self):
        if self.start < 1 or self.largest < 1:
            raise ValueError(f"a search from P = {self.start} up to {self.largest}: both must be at least 1")
        self.start = min(self.start, self.largest)
        for partitions, seconds in self.samples.items():  # of a search that is resumed
            self.measured(partitions, seconds)

    def propose(self) -> int | None:
        """Return the next P, or None if the search is over. Raises ValueError if no P fits in memory. Local."""
        if self.least > self.largest:
            raise ValueError(f"no number of partitions up to {self.largest} keeps within the memory limit; raise "
                             f"--memory-limit or use more ranks")
        if not self.samples:
            return min(2 * max(self.too_large), self.largest) if self.too_large else self.start
        first, tried = next(iter(self.samples)), sorted(p for p in self.samples if p != self.said)
        double, half, seconds = 2 * tried[-1], tried[0] // 2, self.samples
        if self._may(double) and (tried[-1] == first or seconds[tried[-1]] < seconds[tried[-2]]):
            return double
        if self._may(half) and (tried[0] == first or seconds[tried[0]] < seconds[tried[1]]):
            return half
        return self._one_more(tried) if len(tried) < FEWEST else self._said_by_curve()

    def _said_by_curve(self) -> int | None:
        """Return the integer P with the smallest fitted time within the sampled range; None if it was measured."""
        if self.said in self.samples:
            return None  # the curve is asked once, although one more sample changes it a little
        counts = [p for p in range(min(self.samples), max(self.samples) + 1) if self._may(p)]
        self.said = self.fit().best(counts) if counts else None
        return None if self.said in self.samples else self.said

    def _may(self, partitions: int) -> bool:
        return self.least <= partitions <= self.largest and partitions not in self.too_large

    def _one_more(self, tried) -> int | None:
        """Return one more P for a curve that has too few samples: between, above or below the tried ones; or None."""
        between = [round((low * high) ** 0.5) for low, high in zip(tried, tried[1:])]
        wanted = [*between, 2 * tried[-1], tried[-1] + 1, tried[0] - 1]
        return next((p for p in wanted if p not in self.samples and self._may(p)), None)

    def measured(self, partitions: int, seconds: float):
        """Note the mean seconds of a step with P partitions. Local."""
        if not 1 <= partitions <= self.largest:
            raise ValueError(f"a sample at P = {partitions}: P is from 1 to {self.largest}")
        if not 0 < seconds < float("inf"):
            raise ValueError(f"a step of {seconds} seconds at P = {partitions}: a sample is a positive time")
        self.samples[partitions] = float(seconds)

    def exceeded(self, partitions: int):
        """Note that P takes too much memory: it is not tried again, nor is a smaller P if none has fitted. Local."""
        self.too_large.append(partitions)
        if partitions < min(self.samples, default=partitions + 1):
            self.least = max(self.least, partitions + 1)

    def fit(self) -> Fit | None:
        """Return the curve through the samples, None if there are fewer than three. Local."""
        return fit_curve(self.samples) if len(self.samples) >= FEWEST else None

    def best(self) -> int:
        """Return the P with the fewest measured seconds that fits in memory; of equal ones the smallest. Local.

        Raises ValueError if there is none.
        """
        if not self.samples:
            raise ValueError("no P was measured: the training has fewer steps than one sample of the search")
        counts = [p for p in self.samples if p not in self.too_large]
        if not counts:
            raise ValueError("no P that was measured fits in memory any more; raise --memory-limit or use more ranks")
        return min(counts, key=lambda p: (self.samples[p], p))

    def to_json(self) -> dict:
        """Return samples, thetas and the chosen P as plain data. Local."""
        fit = self.fit()
        return {"samples": [{"partitions": p, "seconds": t} for p, t in self.samples.items()],
                "too_large": self.too_large, "least": self.least,
                "theta": None if fit is None else [fit.theta0, fit.theta1, fit.theta2],
                "chosen": self.best() if self.samples else None}
