"""Cut independent examples (images, rows of a table, anything) into global batches and microbatches."""

from functools import cached_property

import numpy as np

from kernels.random import key_of, random_bits
from models import Batch
from models.data.protocol import Epochs, fingerprint_of, require_step
from models.sizes import require_positive


class Examples(Epochs):
    """Data for a training: n examples, shuffled anew in every epoch.

    A step uses the next microbatches * size examples of the epoch, those of all ranks together. The last step of an
    epoch may have fewer; then its later microbatches are short or None.

    inputs, targets: arrays with n examples along axis 0.
    microbatches: V, the number of pieces in a step.  size: b, the number of examples in each piece.
    shuffle: False keeps the order of the examples, as for an evaluation; batches are then views.
    Raises ValueError if inputs and targets differ in length or a number is not positive.
    """

    def __init__(self, inputs, targets, microbatches: int, size: int, seed: int = 0, shuffle: bool = True):
        require_positive(microbatches=microbatches, size=size)
        self.inputs, self.targets = np.asarray(inputs), np.asarray(targets)
        if not self.inputs.ndim or not self.targets.ndim or len(self.inputs) != len(self.targets):
            raise ValueError(f"inputs {self.inputs.shape} and targets {self.targets.shape} differ in length of axis 0")
        self.microbatches, self.size, self.seed, self.shuffle = microbatches, size, seed, shuffle
        self.latest = None, None  # (epoch, its order): the order of one epoch is cached

    @property
    def count(self) -> int:
        """The number of examples in an epoch."""
        return len(self.inputs)

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.count // (self.microbatches * self.size))

    @cached_property
    def fingerprint(self) -> str:
        cutting = self.microbatches, self.size, self.seed, self.shuffle
        return fingerprint_of("examples", self.inputs, self.targets, *cutting)

    def examples(self, step: int) -> int:
        """Return the number of examples in the global batch: V·b, or the rest at the end of an epoch."""
        require_step(self, step)
        full = self.microbatches * self.size
        return min(full, self.count - step % self.steps_per_epoch * full)

    def order(self, epoch: int) -> np.ndarray:
        """Return the epoch's permutation of 0 … n-1, a function of (seed, epoch, n) alone: (n,) int64."""
        if self.latest[0] != epoch:
            # No two sort keys are equal (SplitMix64 is a bijection of the position), so all sorts give the same order.
            keys = random_bits(key_of(self.seed, "order", epoch), len(self.inputs))
            self.latest = epoch, np.argsort(keys)
        return self.latest[1]

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return the v-th piece of the global batch, inputs and targets (up to b, …), weights None."""
        require_step(self, step, index)
        epoch, batch = divmod(step, self.steps_per_epoch)
        first = (batch * self.microbatches + index) * self.size
        which = slice(first, first + self.size)
        if first >= self.count:
            return None
        if self.shuffle:
            which = self.order(epoch)[which]
        return Batch(self.inputs[which], self.targets[which], None, float(self.examples(step)))
