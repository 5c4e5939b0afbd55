"""Whether the ranks' data agree on a step: its targets, counted by all together, and whether it starts an epoch.

A rank reads its own microbatches only, and sees nothing of what another leaves out. So each says, with the sums of loss
and norm that all form in every step, how many targets it holds, and how many the global batch has by its data.
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.transport import CollectiveError

WAYS = (1, 2, 3, 4)


class Said(NamedTuple):
    """What a rank says in a step beside its sums; and what all ranks say, added up.

    errors: of its own.  overflows: of its sums: the consequence of an error that another rank may know.
    targets: in its microbatches.  examples: targets of the global batch, by its data.  starts: 1 if the step starts an
    epoch, by its data.
    """

    errors: int = 0
    overflows: int = 0
    targets: int = 0
    examples: int = 0
    starts: int = 0


class Targets:
    """The targets of each step's global batch. Local, but ``learn`` and ``check``.

    way: over how many of their leading axes they are counted: 1, those of a table, with several outputs each; 2, words
    of a text (time, streams); None: not at all, as they are no arrays.
    """

    def __init__(self, comm):
        self.comm, self.way = comm, None
        self.said, self.words = Said(), ""

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
                raise self._missed(step)

    def count(self, step: int, batches: dict, examples: int, starts: bool = False):
        """Count this rank's targets. Local. Raises ValueError if they are no arrays, and were in the first step.

        examples, starts: how many there are in all, and whether the step starts an epoch, as this rank's data says.
        """
        self.said = Said(starts=starts)
        if self.way is None:
            return
        counts = {v: _count(batch, self.way) for v, batch in batches.items()}
        if strange := [v for v, count in counts.items() if count is None]:
            raise ValueError(f"the targets of microbatch {strange[0]} of step {step} cannot be counted, as those of "
                             "the first step could: let them be arrays")
        self.said = Said(targets=sum(counts.values()), examples=examples, starts=starts)
        absent = [str(v) for v, batch in batches.items() if batch is None]
        self.words = f"{self.said.targets} in {len(batches)} microbatches"
        self.words += f", of which {' '.join(absent)} have none" if absent else ""

    def check(self, step: int, all_say: Said):
        """Raise CollectiveError, which says what each rank says, if the ranks' data disagree. Collective."""
        if all_say.starts not in (0, self.comm.size):
            raise self._another_epoch(step)
        if self.comm.size * all_say.targets != all_say.examples:
            raise self._missed(step)

    def _another_epoch(self, step):
        starts = self.comm.gather_numbers([self.said.starts], "whether an epoch starts")[:, 0]
        ranks = {said: np.flatnonzero(starts == said).tolist() for said in (1, 0)}
        told = (f"{bool(said)} on rank{'s' * (len(who) > 1)} {' '.join(map(str, who))}" for said, who in ranks.items())
        return CollectiveError(f"the data's starts_epoch({step}) says {' and '.join(told)}: it must be a function of "
                               "the step alone")

    def _missed(self, step):
        says = f"examples({step})"
        texts = self.comm.share_text(f"{self.words}, where {says} says {self.said.examples}")
        told = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        return CollectiveError(f"the microbatches of step {step} do not hold the targets that the data's {says}, their "
                               f"normaliser, says: {told}. Let each target be in one microbatch, and each rank say the "
                               "same; where some do not count, let the batch's weights be 0 there, else 1")


def _count(batch, way: int) -> int | None:
    """Return the number of a microbatch's targets, over its first ``way`` axes; None if they cannot be counted."""
    if batch is None:
        return 0
    counted = batch.targets if batch.weights is None else batch.weights
    if not isinstance(counted, np.ndarray) or not counted.ndim:
        return None
    if batch.weights is None:
        return math.prod(counted.shape[:way])
    return int(np.count_nonzero(counted if counted.ndim <= way else counted.any(axis=tuple(range(way, counted.ndim)))))
