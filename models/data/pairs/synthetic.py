"""Synthetic sentence pairs: microbatches of a given shape for benchmarks, and ``synthetic-pairs[:VOCABULARY]``."""

from dataclasses import dataclass

import numpy as np

from kernels.random import key_of, uniform
from models.data.files import DataError
from models.data.pairs.buckets import PairBuckets
from models.data.pairs.words import END, PADDING, SPECIAL, Pairs
from models.data.text.synthetic import generate

PAIRS, HELDOUT, LENGTH = 20_000, 1_000, 25


@dataclass(frozen=True)
class SyntheticPairs:
    """Zipf-distributed sentence pairs. sentences: in a microbatch.  length: words of a sentence in each language."""

    source_vocabulary: int
    target_vocabulary: int
    sentences: int = 16
    length: int = 25

    def __str__(self):
        return f"{self.sentences} sentences x {self.length} words"

    @property
    def sizes(self) -> dict:
        """Sizes that a model of these pairs must have."""
        return {"source_vocabulary": self.source_vocabulary, "target_vocabulary": self.target_vocabulary}

    @property
    def examples(self) -> int:
        """The number of target words in a microbatch."""
        return self.sentences * self.length

    def make(self, microbatches: int, seed: int, steps: int):
        """Return a ``Data`` of ``steps`` full steps. Local."""
        return self._cut("train", microbatches, seed, steps)

    def make_heldout(self, microbatches: int, seed: int):
        """Return held-out pairs of one step. Local."""
        return self._cut("heldout", microbatches, seed, 1)

    def _cut(self, part, microbatches, seed, steps):
        sides = drawn_pairs(microbatches * self.sentences * steps, self.length, tuple(self.sizes.values()),
                            key_of(seed, "pairs", part))
        return PairBuckets(*sides, microbatches, self.sentences, seed)


def drawn_pairs(count: int, length: int, vocabularies, key: int):
    """Return (sources, targets), (count, length) each, of Zipf-distributed words; targets end with END. Local."""
    sides = [generate(vocabulary - len(SPECIAL), count * length, key_of(key, side)).reshape(count, length)
             + len(SPECIAL) for side, vocabulary in enumerate(vocabularies)]
    sides[1][:, -1] = END
    return sides


def load_synthetic_pairs(vocabulary: str = "10000") -> Pairs:
    """Return PAIRS and HELDOUT pairs of 1 to LENGTH words and an end, for this vocabulary. Local. Raises DataError."""
    if not vocabulary.isdecimal() or not len(SPECIAL) < int(vocabulary) < 2**31:
        raise DataError(f"synthetic-pairs:{vocabulary}: give a number of words from {len(SPECIAL) + 1} to 2^31")
    words = int(vocabulary)
    parts = []
    for part, count in (("train", PAIRS), ("heldout", HELDOUT)):
        key = key_of("synthetic pairs", part)
        sides = drawn_pairs(count, LENGTH + 1, (words, words), key)
        for number, side in enumerate(sides):
            lengths = 1 + (uniform(key_of(key, "lengths", number), count) * LENGTH).astype(np.int64)[:, None]
            place = np.arange(LENGTH + 1)
            side[place >= lengths] = PADDING
            if number:
                side[np.arange(count), lengths[:, 0]] = END
        parts.append(tuple(sides))
    vocabulary = [*SPECIAL, *map(str, range(len(SPECIAL), words))]
    return Pairs(f"synthetic-pairs:{words}", *parts, (vocabulary,) * 2, str.split, " ".join)
