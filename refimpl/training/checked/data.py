"""A user's data with checks of each answer: the global batch's normaliser, and read-only arrays."""

import copy
import math
import numbers

from kernels.arrays import read_only
from kernels.random import key_of
from models import Batch
from refimpl.training.checked.written import FIELDS, Kept, checksum


class CheckedData:
    """A ``models.data.Data``. Local. Raises ValueError, with step and microbatch, if the data break the protocol."""

    def __init__(self, data):
        self.data, self.first = data, True

    def __getattr__(self, name):
        return getattr(self.data, name)

    def examples(self, step: int) -> int:
        """Return the number of targets in the global batch of a step."""
        said = self.data.examples(step)
        number = isinstance(said, numbers.Real) and not isinstance(said, bool) and math.isfinite(said)
        if not number or said != int(said) or said < 0:
            raise ValueError(f"the data's examples({step}) returned {said!r:.80}: it must return the number of targets "
                             "in the global batch of that step")
        return int(said)

    def microbatch(self, step: int, index: int, examples: int | None = None) -> Batch | None:
        """Return a microbatch with read-only arrays; None if it has no examples.

        examples: in its global batch; None for held-out data, which need no normaliser.
        """
        batch = self.data.microbatch(step, index)
        if batch is None:
            return None
        if not isinstance(batch, Batch):
            raise ValueError(f"the data's microbatch({step}, {index}) returned {type(batch).__name__}: it must return "
                             "a Batch, or None for a microbatch without targets")
        if examples is not None and batch.normaliser != examples:
            raise ValueError(f"microbatch {index} of step {step} has normaliser {batch.normaliser!r}, but the data's "
                             f"examples({step}) says that the global batch has {examples!r} targets: give this number "
                             "to each microbatch of the step as its normaliser")
        batch = copy.copy(batch)  # whatever else a batch of one's own has
        batch.index, batch.notes = index, {}
        for field in FIELDS:
            setattr(batch, field, read_only(getattr(batch, field)))
        return batch

    def read(self, step: int, seed: int, carried: dict) -> tuple[dict, int]:
        """Return (microbatch -> its batch, or None if it has no examples; the number of examples in the step).

        carried: microbatch -> the state of its batch.  In the first step of a session each microbatch is read twice.
        """
        batches, kept, examples = {}, Kept(), self.examples(step)
        for v, state in carried.items():
            batches[v] = batch = self.microbatch(step, v, examples)
            if batch is not None:
                batch.key, batch.state = key_of(seed, "microbatch", step, v), state
                if self.first:
                    kept.keep_batch(batch, v)
        if label := kept.written():
            raise ValueError(f"batch.{label[1]} of microbatch {label[0]} has changed while others were read: give each "
                             "microbatch arrays of its own")
        for v, batch in batches.items() if self.first else ():
            again = self.microbatch(step, v, examples)
            same = (again is None) == (batch is None)
            if not same or batch and any(checksum(getattr(again, f)) != kept[v, f][1] for f in FIELDS):
                raise ValueError(f"the data's microbatch({step}, {v}) has changed between two calls: it must depend on "
                                 "step and number alone. If it draws random numbers (from NumPy or random), give it a "
                                 f"generator of its own: np.random.default_rng([seed, {step}, {v}])")
        self.first = False
        return batches, examples
