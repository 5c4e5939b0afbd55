"""Synthetic sentence pairs in microbatches of a given shape, for benchmarks and experiments."""

from dataclasses import dataclass

import numpy as np

from kernels.random import key_of
from models.data.pairs.buckets import PairBuckets
from models.data.pairs.words import END, SPECIAL
from models.data.text.synthetic import generate


@dataclass(frozen=True)
class SyntheticPairs:
    """A microbatch is so many sentences, each of ``length`` Zipf-distributed words in both languages."""

    source_vocabulary: int
    target_vocabulary: int
    sentences: int = 16
    length: int = 25

    def __str__(self):
        return f"{self.sentences} sentences x {self.length} words"

    @property
    def sizes(self) -> dict:
        """Sizes that a model of them must have."""
        return {"source_vocabulary": self.source_vocabulary, "target_vocabulary": self.target_vocabulary}

    @property
    def examples(self) -> int:
        """Target words in a microbatch."""
        return self.sentences * self.length

    def make(self, microbatches: int, seed: int, steps: int):
        """Return a ``Data`` of ``steps`` full steps. Local."""
        return self._cut("train", microbatches, seed, steps)

    def make_heldout(self, microbatches: int, seed: int):
        """Return held-out pairs of one step. Local."""
        return self._cut("heldout", microbatches, seed, 1)

    def _cut(self, part, microbatches, seed, steps):
        count = microbatches * self.sentences * steps
        sides = [generate(vocabulary - len(SPECIAL), count * self.length, key_of(seed, "pairs", part, side))
                 .reshape(count, self.length) + len(SPECIAL) for side, vocabulary in self.sizes.items()]
        sides[1][:, -1] = END
        return PairBuckets(np.asarray(sides[0]), np.asarray(sides[1]), microbatches, self.sentences, seed)
