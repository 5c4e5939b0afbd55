"""Cut a text into parallel streams of windows, for truncated backpropagation through time."""

from functools import cached_property

import numpy as np

from models import Batch
from models.data.protocol import Epochs, fingerprint_of, require_step
from models.sizes import require_positive


class TokenStreams(Epochs):
    """Data for a training: a text, cut into V·b contiguous pieces, the streams, which are read in parallel.

    Its L tokens make n = L-1 pairs (token, next token).
    Stream i has n // (V·b) pairs, and one more if i < n mod (V·b); it is row i mod b of microbatch i // b.  Step s
    holds window s of every stream, of up to T pairs; after the last window the next epoch starts at the beginning.

    tokens: (L,) integers.  microbatches: V.  streams: b, the streams of a microbatch.  window: T, pairs in a step.
    Raises ValueError if tokens are not such an array or a number is not positive.
    """

    def __init__(self, tokens, microbatches: int, streams: int, window: int):
        require_positive(microbatches=microbatches, streams=streams, window=window)
        self.tokens = np.asarray(tokens)
        if self.tokens.ndim != 1 or self.tokens.dtype.kind not in "iu":
            raise ValueError(f"tokens must be (L,) integers, not {self.tokens.shape} {self.tokens.dtype}")
        self.microbatches, self.streams, self.window = microbatches, streams, window
        self.shorter, self.longer_streams = divmod(max(len(self.tokens) - 1, 0), microbatches * streams)

    @property
    def steps_per_epoch(self) -> int:
        """The number of windows in the longest stream."""
        return -(-self.length(0) // self.window)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of("streams", self.tokens, self.microbatches, self.streams, self.window)

    def length(self, stream: int) -> int:
        """Return the number of pairs in a stream."""
        return self.shorter + (stream < self.longer_streams)

    def offset(self, step: int) -> int:
        """Return the position in each stream at which the window of ``step`` begins."""
        return step % self.steps_per_epoch * self.window

    def examples(self, step: int) -> int:
        """Return the number of targets in the windows of all V·b streams."""
        require_step(self, step)
        offset, streams = self.offset(step), self.microbatches * self.streams
        of_longer, of_shorter = (min(max(self.shorter + more - offset, 0), self.window) for more in (1, 0))
        return self.longer_streams * of_longer + (streams - self.longer_streams) * of_shorter

    def microbatch(self, step: int, index: int) -> Batch | None:
        """Return inputs and targets (time, b) int64, time <= T, and weights if a stream ends before the window does.

        weights: None, or (time, b) float32, 0 at padding.  Padding repeats the pair of the microbatch's first stream,
        so that it touches no other rows of a sparse variable.
        """
        require_step(self, step, index)
        first, offset = index * self.streams, self.offset(step)
        time = min(self.window, self.length(first) - offset)  # no stream of the microbatch is longer than its first
        if time <= 0:
            return None
        stream = np.arange(first, first + self.streams)
        starts = stream * self.shorter + np.minimum(stream, self.longer_streams)
        where = starts + np.arange(offset, offset + time)[:, None]
        weights, full = None, self.longer_streams - first
        if 0 < full < self.streams and offset + time > self.shorter:
            where[-1, full:] = where[-1, 0]
            weights = np.ones((time, self.streams), np.float32)
            weights[-1, full:] = 0
        inputs = self.tokens.take(where).astype(np.int64, copy=False)
        targets = self.tokens.take(where + 1).astype(np.int64, copy=False)
        return Batch(inputs, targets, weights, float(self.examples(step)))
