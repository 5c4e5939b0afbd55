"""Do the ranks' data agree about a step? All ranks together count its targets, and compare whether it starts an epoch.

A rank reads only its own microbatches, and cannot see what another rank leaves out. So with the sums of loss and norm
each rank sends the number of its targets, and the number of targets in the global batch according to its data.
"""

import math
from typing import NamedTuple

import numpy as np

from refimpl.transport import CollectiveError
from refimpl.words import ranks_named

WAYS = (1, 2, 3, 4)


class Said(NamedTuple):
    """The numbers that a rank adds to the sums of a step, or the sums of all ranks.

    errors: of this rank.  overflows: of its sums, which may follow from an error on another rank.
    targets: in its microbatches.  examples: targets of the global batch according to its data.  starts: 1 if the step
    starts an epoch according to its data.
    """

    errors: int = 0
    overflows: int = 0
    targets: int = 0
    examples: int = 0
    starts: int = 0


class Targets:
    """The targets of each step's global batch. Local, except for ``learn`` and ``check``.

    way: the number of leading axes over which targets are counted: 1 for a table, whose rows may have several outputs;
    2 for words of a text (time, streams); None: they are not counted, because they are no arrays.
    """

    def __init__(self, comm):
        self.comm, self.way = comm, None
        self.said, self.words = Said(), ""

    def learn(self, step: int, batches: dict, examples: int):
        """Find the number of axes to count over. Collective. Raises CollectiveError if none gives the right sum."""
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
        """Count this rank's targets. Local. Raises ValueError if they cannot be counted, but could in the first step.

        examples, starts: the targets of the global batch, and whether the step starts an epoch, according to this
        rank's data.
        """
        self.said = Said(starts=starts)
        if self.way is None:
            return
        counts = {v: _count(batch, self.way) for v, batch in batches.items()}
        if strange := [v for v, count in counts.items() if count is None]:
            raise ValueError(f"the targets of microbatch {strange[0]} of step {step} cannot be counted; those of "
                             "the first step could: give arrays in every step")
        self.said = Said(targets=sum(counts.values()), examples=examples, starts=starts)
        absent = [str(v) for v, batch in batches.items() if batch is None]
        self.words = f"{self.said.targets} in {len(batches)} microbatches"
        self.words += f", of which {' '.join(absent)} have none" if absent else ""

    def check(self, step: int, all_say: Said):
        """Raise CollectiveError, with the numbers of each rank, if the ranks' data disagree. Collective."""
        if all_say.starts not in (0, self.comm.size):
            raise self._another_epoch(step)
        if self.comm.size * all_say.targets != all_say.examples:
            raise self._missed(step)

    def _another_epoch(self, step):
        starts = self.comm.gather_numbers([self.said.starts], "whether an epoch starts")[:, 0]
        ranks = {said: np.flatnonzero(starts == said).tolist() for said in (1, 0)}
        told = (f"{bool(said)} on {ranks_named(who, ' ')}" for said, who in ranks.items())
        return CollectiveError(f"the data's starts_epoch({step}) says {' and '.join(told)}: it must be a function of "
                               "the step alone")

    def _missed(self, step):
        says = f"examples({step})"
        texts = self.comm.share_text(f"{self.words}, where {says} says {self.said.examples}")
        told = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(texts))
        return CollectiveError(f"the microbatches of step {step} do not hold the targets that the data's {says} counts"
                               f": {told}. Put each target into one microbatch, and let {says} return the same number "
                               "on every rank. If some targets do not count, give them the weight 0, and the others 1")


def _count(batch, way: int) -> int | None:
    """Return the number of targets in a microbatch, over its first ``way`` axes; None if they are no array."""
    if batch is None:
        return 0
    counted = batch.targets if batch.weights is None else batch.weights
    if not isinstance(counted, np.ndarray) or not counted.ndim:
        return None
    if batch.weights is None:
        return math.prod(counted.shape[:way])
    return int(np.count_nonzero(counted if counted.ndim <= way else counted.any(axis=tuple(range(way, counted.ndim)))))
