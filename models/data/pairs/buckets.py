"""Cut sentence pairs into microbatches of similar lengths, so that they need little padding."""

from functools import cached_property

import numpy as np

from kernels.random import key_of, random_bits
from models import Batch
from models.data.protocol import Epochs, fingerprint_of, require_step
from models.sizes import require_positive

BUCKETS = 5
"""As in the authors' code (docs/paper.md, Models): a bucket covers a fifth of the lengths."""


class PairBuckets(Epochs):
    """n sentence pairs; a microbatch has b pairs of one bucket, a step V microbatches of any buckets; a ``Data``.

    There are five buckets, of equal ranges of length. A pair belongs to the bucket of its longer sentence.  In each
    epoch the pairs of each bucket are shuffled and cut into pieces of b (the last may be short); then the pieces are
    shuffled. A step takes the next V pieces; the last step of an epoch may have fewer.

    sources, targets: (n, longest) integers, -1 past a sentence's end.  A batch has inputs (source time, b), -1 past the
    end; targets (target time, b); and weights, 0 past the end. Past its end a target sentence repeats its last word.
    shuffle=False: pairs by rising bucket and number, as for evaluation.  Raises ValueError if the shapes do not match.
    """

    def __init__(self, sources, targets, microbatches: int, size: int, seed: int = 0, shuffle: bool = True):
        require_positive(microbatches=microbatches, size=size)
        if sources.ndim != 2 or targets.ndim != 2 or len(sources) != len(targets):
            raise ValueError(f"sources {sources.shape} and targets {targets.shape}: give (n, longest) each")
        self.sources, self.targets = sources, targets
        self.microbatches, self.size, self.seed, self.shuffle = microbatches, size, seed, shuffle
        self.lengths = tuple((side >= 0).sum(axis=1) for side in (sources, targets))
        longest = np.maximum(*self.lengths)
        width = -(-int(longest.max(initial=1)) // BUCKETS)
        self.bucket = (np.maximum(longest, 1) - 1) // width
        ends = np.cumsum(np.bincount(self.bucket, minlength=1))
        self.pieces = [(at, min(at + size, end))
                       for first, end in zip([0, *ends], ends) for at in range(first, end, size)]
        self.latest = None, None

    @property
    def steps_per_epoch(self) -> int:
        return -(-len(self.pieces) // self.microbatches)

    @cached_property
    def fingerprint(self) -> str:
        cutting = self.microbatches, self.size, self.seed, self.shuffle
        return fingerprint_of("pairs", self.sources, self.targets, *cutting)

    def order(self, epoch: int):
        """Return the epoch's (pairs, pieces): the numbers of the pairs by bucket, (n,), and the order of the pieces."""
        if not self.shuffle:
            return self.unshuffled
        if self.latest[0] != epoch:
            drawn = [random_bits(key_of(self.seed, what, epoch), count)
                     for what, count in (("pairs", len(self.bucket)), ("pieces", len(self.pieces)))]
            self.latest = epoch, (np.lexsort((drawn[0], self.bucket)), np.argsort(drawn[1]))
        return self.latest[1]

    @cached_property
    def unshuffled(self):
        """The order of all epochs if nothing is shuffled."""
        return np.argsort(self.bucket, kind="stable"), np.arange(len(self.pieces))

    def chosen(self, step: int, index: int):
        """Return the numbers of the pairs of a microbatch: (up to b,) int64, empty after the epoch's last pair."""
        require_step(self, step, index)
        epoch, batch = divmod(step, self.steps_per_epoch)
        pairs, pieces = self.order(epoch)
        place = batch * self.microbatches + index
        return pairs[slice(*self.pieces[pieces[place]])] if place < len(pieces) else pairs[:0]

    def examples(self, step: int) -> int:
        """Return the number of target words in the global batch, with the ends of sentences."""
        return sum(int(self.lengths[1][self.chosen(step, index)].sum()) for index in range(self.microbatches))

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return inputs (source time, b), targets (target time, b) int64, and weights if target lengths differ."""
        which = self.chosen(step, index)
        if not len(which):
            return None
        inputs, targets = (trimmed(side, lengths, which)
                           for side, lengths in zip((self.sources, self.targets), self.lengths))
        weights, last = None, self.lengths[1][which] - 1
        if (padding := targets < 0).any():
            weights = (~padding).astype(np.float32)
            targets = np.where(padding, targets[last, np.arange(len(which))], targets)
        return Batch(inputs, targets, weights, float(self.examples(step)))


def trimmed(side, lengths, which):
    """Return the sentences of these numbers as columns, padded to the longest: (time, b) int64. Local."""
    return np.ascontiguousarray(side[which, :lengths[which].max()].T.astype(np.int64))
