"""Whether the microbatches of a step are the whole global batch: their targets, counted by all ranks together.

A rank reads its own microbatches only. So each adds, to a number that all sum up in every step anyway, N times its own
targets less those of the global batch: over all ranks that is nothing, unless one is missing or a rank says otherwise.
"""

import numpy as np

from refimpl.transport import CollectiveError

MODULUS = 2**31
"""Deviations are told by their remainder: of a number with 31 bits to spare."""


class Targets:
    """The targets of each step's global batch. Local, but ``learn`` and ``refuse``.

    way: how they are counted: 0, along their first axis (rows of a table, with several outputs each); 1, each (words of
    a text); None: not at all, as they are no arrays.
    """

    def __init__(self, data, comm):
        self.data, self.comm = data, comm
        self.way: int | None = None
        self.step, self.said, self.counted, self.words = 0, 0, 0, ""

    def learn(self, step: int, batches: dict):
        """Find in which way they are counted. Collective. Raises CollectiveError if they add up in neither."""
        counts = [_counts(batch) for batch in batches.values()]
        known = None not in counts
        sums = [sum(count[way] for count in counts) for way in (0, 1)] if known else [0, 0]
        mine = [self.data.examples(step), known, *sums]
        said, knows, *found = self.comm.gather_numbers(mine, "a count of targets").T
        if knows.all():
            right = [way for way in (1, 0) if (found[way].sum() == said).all()]
            self.way = right[0] if right else 1
            if not right:
                self.count(step, batches)
                self.refuse()

    def count(self, step: int, batches: dict):
        """Count this rank's targets. Local. Raises ValueError if they are no arrays, and were in the first step."""
        self.step = step
        if self.way is None:
            return
        counts = {v: _counts(batch) for v, batch in batches.items()}
        if strange := [v for v, count in counts.items() if count is None]:
            raise ValueError(f"the targets of microbatch {strange[0]} of step {step} cannot be counted, as those of "
                             "the first step could: let them be arrays")
        self.said, self.counted = self.data.examples(step), sum(count[self.way] for count in counts.values())
        absent = [str(v) for v, batch in batches.items() if batch is None]
        self.words = f"{self.counted} in {len(batches)} microbatches"
        self.words += f", of which {' '.join(absent)} have none" if absent else ""

    @property
    def deviation(self) -> int:
        """What this rank adds to the number that must be a multiple of MODULUS."""
        return (self.comm.size * self.counted - self.said) % MODULUS

    def refuse(self):
        """Raise CollectiveError, which says how many each rank has counted. Collective."""
        says = f"examples({self.step})"
        texts = self.comm.share_text(f"{self.words}, where {says} says {self.said}")
        told = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        raise CollectiveError(f"the microbatches of step {self.step} do not hold the targets that the data's {says}, "
                              f"their normaliser, says: {told}. Let each target be in one microbatch, and each rank "
                              "say the same")


def _counts(batch) -> tuple[int, int] | None:
    """Return the targets of a microbatch, counted both ways; None if they cannot be."""
    if batch is None:
        return 0, 0
    if batch.weights is not None:
        counted = batch.weights
        return (int(np.count_nonzero(counted)),) * 2 if isinstance(counted, np.ndarray) else None
    if not isinstance(batch.targets, np.ndarray) or not batch.targets.ndim:
        return None
    return len(batch.targets), batch.targets.size
