"""The translation model's entry in the registry, with its workloads, the paper's figures and its golden trace.

In the golden trace sentences differ in length on both sides; two of its four steps are clipped.
"""

from dataclasses import replace

import numpy as np

from kernels.random import key_of, random_bits
from models.data.pairs.buckets import PairBuckets
from models.data.pairs.synthetic import SyntheticPairs
from models.data.pairs.words import END, PADDING, Pairs
from models.golden import MICROBATCHES, SEED, Golden
from models.nmt.beam import translate
from models.nmt.model import PRESETS, TranslationModel
from models.registry import ModelEntry
from models.workload import BoundedTraining, ByLength, Paper, Workload


def _sizes(vocabulary, units, keep=0.8):
    return dict(source_vocabulary=vocabulary, target_vocabulary=vocabulary, units=units, layers=2, keep=keep,
                smoothing=0.0)


PAPERS = Workload("nmt", "nmt", _sizes(4568, 128), dict(sentences=16, length=25))
"""The paper's model with an eighth of the units, vocabularies and sentences of a microbatch. It has a 64th of the dense
and of the sparse elements; α is the same.
"""

TINY = Workload("tiny", "nmt", _sizes(30, 4, keep=0.9), dict(sentences=2, length=3))

WORKLOADS = {
    "throughput": PAPERS,
    "partitions": PAPERS,
    "warm-up": Workload("warm-nmt", "nmt", _sizes(60, 4), dict(sentences=2, length=4)),
}

DENSE, SPARSE = 94_070_785, 74_850_304

BY_LENGTH = ByLength(
    {length: replace(PAPERS, name=f"nmt-length-{length}", shape={**PAPERS.shape, "length": length})
     for length in (50, 25, 12, 4, 2)},
    flop=128 * 50 * 6 * DENSE, elements=DENSE, our_elements=1_472_257)
"""The throughput workload with sentences of several lengths, from the authors' longest down to one word and an end."""

BOUNDS = (BoundedTraining("float32 sgd", TINY, "float32", "sgd", 0.5, 2,
                          still=("attention/g", "attention/bias")),)


def at_size(ranks: int, seed: int):
    """Return the paper's model, and synthetic pairs for ``ranks`` workers. Local; it allocates no parameters."""
    model = TranslationModel(**PRESETS["paper"])
    return model, SyntheticPairs(*model.vocabularies, sentences=128, length=25).make(ranks, seed, 2)


PAPER = Paper(
    dense=DENSE, sparse=SPARSE, alpha=0.65, examples=128 * 25, at_size=at_size,
    flop=6 * DENSE,  # 2 an element and pair of words forward, twice that backward
    efficiency=0.3,
    assumed=("NMT reaches 30 % of a GPU's peak. A target word, and the source word beside it, cost 6 FLOP for each "
             "dense element; 128 sentences of 25 words a GPU, words by Zipf's law.",
             "alpha of NMT is recalled as 0.65 of all elements; 128 sentences of at most 50 words touch at most "
             "6,400 of 36,548 rows of each embedding, and the start symbol's row, which makes 0.634."))


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
    {**SIZES, "inputs": f"(source time, sentences) word ids, {PADDING} past a sentence's end; (target time, "
                        "sentences); weight 0: past the end. The decoder reads <s> (1), then the targets but "
                        "the last."})


ENTRY = ModelEntry(
    model=TranslationModel, content=Pairs, presets=PRESETS, unit="words", quality="perplexity",
    defaults={"data": "numbers", "microbatch_size": 16, "optimizer": "adam", "learning_rate": 4e-3, "rate": "cosine",
              "clip_norm": 5.0},
    synthetic=lambda sizes, **shape: SyntheticPairs(sizes["source_vocabulary"], sizes["target_vocabulary"], **shape),
    workloads=WORKLOADS, by_length=BY_LENGTH, bounds=BOUNDS, paper=PAPER, golden=GOLDEN, translate=translate)
