"""Synthetic text in microbatches of a given shape, for benchmarks and experiments."""

from dataclasses import dataclass

import numpy as np

from kernels.random import key_of, random_bits
from models import Batch
from models.data.protocol import Epochs, fingerprint_of
from models.data.streams import TokenStreams
from models.data.text.synthetic import load_synthetic


@dataclass(frozen=True)
class SyntheticText:
    """Synthetic text; a microbatch has ``window`` words of each of its ``streams``.

    distinct: all words of a microbatch differ, so that alpha of a table of words is streams * window / vocabulary.
    Otherwise the text is Zipf-distributed.
    """

    vocabulary: int
    streams: int = 8
    window: int = 20
    distinct: bool = False

    def __str__(self):
        return f"{self.streams} streams x {self.window} words"

    @property
    def sizes(self) -> dict:
        """Sizes that a model of this text must have."""
        return {"vocabulary": self.vocabulary}

    @property
    def examples(self) -> int:
        return self.streams * self.window

    def make(self, microbatches: int, seed: int, steps: int):
        """Return a ``Data`` of ``steps`` full steps. Local. Raises ValueError if distinct words do not suffice."""
        if self.distinct:
            return DistinctWords(self.vocabulary, microbatches, self.streams, self.window, seed, steps)
        corpus = load_synthetic(str(self.vocabulary), microbatches * self.examples * steps + 1, 0, seed)
        return TokenStreams(corpus.train, microbatches, self.streams, self.window)

    def make_heldout(self, microbatches: int, seed: int):
        """Return held-out text: one window of every stream. Local."""
        corpus = load_synthetic(str(self.vocabulary), 0, microbatches * self.examples + 1, seed)
        return TokenStreams(corpus.heldout, microbatches, self.streams, self.window)


class DistinctWords(Epochs):
    """A ``Data`` of windows whose words all differ: alpha is exact, as in the paper's sparsity-degree experiment.

    The inputs and the targets of a microbatch are the first window * streams words of two random orders of the
    vocabulary.
    """

    def __init__(self, vocabulary: int, microbatches: int, streams: int, window: int, seed: int, steps: int):
        if streams * window > vocabulary:
            raise ValueError(f"{streams} x {window} words cannot differ in a vocabulary of {vocabulary}")
        self.vocabulary, self.microbatches, self.shape, self.seed = vocabulary, microbatches, (window, streams), seed
        self.steps_per_epoch = steps

    @property
    def fingerprint(self) -> str:
        return fingerprint_of("distinct words", self.vocabulary, self.microbatches, *self.shape, self.seed)

    def examples(self, step: int) -> int:
        return self.microbatches * self.shape[0] * self.shape[1]

    def microbatch(self, step: int, index: int) -> Batch:
        """Return inputs and targets (window, streams) int64."""
        words = [self._words(part, step, index) for part in ("inputs", "targets")]
        return Batch(*words, None, float(self.examples(step)))

    def _words(self, part, step, index):
        key = key_of(self.seed, "distinct", part, step % self.steps_per_epoch, index)
        order = np.argsort(random_bits(key, self.vocabulary))
        return order[:self.shape[0] * self.shape[1]].reshape(self.shape).astype(np.int64, copy=False)
