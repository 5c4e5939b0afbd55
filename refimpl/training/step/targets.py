"""Whether the ranks' data agree on a step: its targets, counted by all together, and whether it starts an epoch.

A rank reads its own microbatches only. So each adds, to a number that all sum up in every step anyway, N times its own
targets less those of the global batch: over all ranks that is nothing, unless one is missing or a rank says otherwise.
Where a step starts an epoch, each adds EPOCH more, and rank 0 takes N - 1 times EPOCH away: nothing, too, if all agree.
"""

import math

import numpy as np

from refimpl.transport import CollectiveError

EPOCH = 2**20 + 1
WAYS = (1, 2, 3, 4)
MODULUS = 2**31
"""Deviations are told by their remainder: of a number with 31 bits to spare."""


class Targets:
    """The targets of each step's global batch. Local, but ``learn`` and ``refuse``.

    way: over how many of their leading axes they are counted: 1, those of a table, with several outputs each; 2, words
    of a text (time, streams); None: not at all, as they are no arrays.
    """

    def __init__(self, comm):
        self.comm = comm
        self.way: int | None = None
        self.step, self.said, self.counted, self.words = 0, 0, 0, ""
        self.starts = False

    def learn(self, step: int, batches: dict, examples: int):
        """Find in which way they are counted. Collective. Raises CollectiveError if they add up in none."""
        known = all(_count(batch, WAYS[0]) is not None for batch in batches.values())
        sums = [sum(_count(batch, way) for batch in batches.values()) if known else 0 for way in WAYS]
        said, knows, *found = self.comm.gather_numbers([examples, known, *sums], "a count of targets").T
        if knows.all():
            right = [way for way, counted in zip(WAYS, found) if (counted.sum() == said).all()]
            self.way = right[0] if right else WAYS[-1]
            if not right:
                self.count(step, batches, examples)
                self.refuse()

    def count(self, step: int, batches: dict, examples: int, starts: bool = False):
        """Count this rank's targets. Local. Raises ValueError if they are no arrays, and were in the first step.

        examples, starts: how many there are in all, and whether the step starts an epoch, as this rank's data says.
        """
        self.step, self.starts = step, starts
        if self.way is None:
            return
        counts = {v: _count(batch, self.way) for v, batch in batches.items()}
        if strange := [v for v, count in counts.items() if count is None]:
            raise ValueError(f"the targets of microbatch {strange[0]} of step {step} cannot be counted, as those of "
                             "the first step could: let them be arrays")
        self.said, self.counted = examples, sum(counts.values())
        absent = [str(v) for v, batch in batches.items() if batch is None]
        self.words = f"{self.counted} in {len(batches)} microbatches"
        self.words += f", of which {' '.join(absent)} have none" if absent else ""

    @property
    def deviation(self) -> int:
        """What this rank adds to the number that must be a multiple of MODULUS."""
        epoch = EPOCH * self.starts * (1 if self.comm.rank else 1 - self.comm.size)
        return (self.comm.size * self.counted - self.said + epoch) % MODULUS

    def refuse(self):
        """Raise CollectiveError, which says what each rank says. Collective."""
        starts = self.comm.gather_numbers([self.starts], "whether an epoch starts")[:, 0]
        if starts.min() != starts.max():
            ranks = {said: np.flatnonzero(starts == said).tolist() for said in (1, 0)}
            told = (f"{bool(said)} on rank{'s' * (len(who) > 1)} {' '.join(map(str, who))}"
                    for said, who in ranks.items())
            raise CollectiveError(f"the data's starts_epoch({self.step}) says {' and '.join(told)}: it must be a "
                                  "function of the step alone")
        says = f"examples({self.step})"
        texts = self.comm.share_text(f"{self.words}, where {says} says {self.said}")
        told = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        raise CollectiveError(f"the microbatches of step {self.step} do not hold the targets that the data's {says}, "
                              f"their normaliser, says: {told}. Let each target be in one microbatch, and each rank "
                              "say the same; where some do not count, let the batch's weights be 0 there, else 1")


def _count(batch, way: int) -> int | None:
    """Return the targets of a microbatch over so many leading axes; None if they cannot be counted."""
    if batch is None:
        return 0
    counted = batch.targets if batch.weights is None else batch.weights
    if not isinstance(counted, np.ndarray) or not counted.ndim:
        return None
    if batch.weights is None:
        return math.prod(counted.shape[:way])
    return int(np.count_nonzero(counted if counted.ndim <= way else counted.any(axis=tuple(range(way, counted.ndim)))))
