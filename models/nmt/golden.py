"""The translation model's golden trace. Sentences differ in length on both sides; two of four steps are clipped."""

import numpy as np

from kernels.random import key_of, random_bits
from models.data.pairs.buckets import PairBuckets
from models.data.pairs.words import END, PADDING
from models.golden import MICROBATCHES, SEED, Golden
from models.nmt.model import PRESETS, TranslationModel

SIZES = {**PRESETS["tiny"], "keep": 1.0}
PAIRS, LONGEST = 24, (6, 5)


def sentences(side: str, longest: int, vocabulary: int):
    """Return PAIRS random sentences of 1 to ``longest`` words: (PAIRS, longest + 1) int64; targets end with END."""
    drawn = random_bits(key_of(SEED, side, "words"), PAIRS * (longest + 1)).reshape(PAIRS, longest + 1)
    words = (drawn % np.uint64(vocabulary - END - 1)).astype(np.int64) + END + 1
    length = (random_bits(key_of(SEED, side, "lengths"), PAIRS) % np.uint64(longest)).astype(np.int64)[:, None] + 1
    place = np.arange(longest + 1)
    return np.where(place < length, words, np.where((place == length) & (side == "target"), END, PADDING))


def pairs():
    """Return the pairs in microbatches of up to 2, and their numbers."""
    source, target = (sentences(side, longest, SIZES[f"{side}_vocabulary"])
                      for side, longest in zip(("source", "target"), LONGEST))
    data = PairBuckets(source, target, MICROBATCHES, 2, SEED)
    return data, Numbered(data)


class Numbered:
    """Microbatches of the numbers of the same pairs: inputs are (b,), one number for each sentence."""

    def __init__(self, data):
        self.data = data

    def microbatch(self, step, index):
        """Return the batch whose inputs are the numbers of its pairs."""
        batch = self.data.microbatch(step, index)
        batch.inputs = self.data.chosen(step, index)
        return batch


GOLDEN = Golden(
    lambda dtype: TranslationModel(**SIZES, dtype=dtype), pairs,
    {"optimizer": "adagrad", "learning_rate": 0.5, "clip_norm": 0.0228},
    {**SIZES, "inputs": f"(source time, sentences) word ids, {PADDING} past a sentence's end; (target time, sentences); "
                        "weight 0: past the end. The decoder reads <s> (1), then the targets but the last."})
