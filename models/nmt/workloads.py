"""The translation model's workloads for benchmarks and the paper's experiment, and the paper's figures."""

from dataclasses import replace

from models.data.pairs.synthetic import SyntheticPairs
from models.nmt.model import PRESETS, TranslationModel
from models.paper import Paper
from models.workload import BoundedTraining, ByLength, Workload


def _sizes(vocabulary, units, keep=0.8):
    return dict(source_vocabulary=vocabulary, target_vocabulary=vocabulary, units=units, layers=2, keep=keep,
                smoothing=0.0)


PAPERS = Workload("nmt", "nmt", _sizes(4568, 128), dict(sentences=16, length=25))
"""The paper's model with an eighth of the units, vocabularies and sentences of a microbatch. Dense and sparse elements
both shrink 64 times; alpha stays."""

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
    assumed=("NMT reaches 30 % of a GPU's peak. A target word, and the source word beside it, cost 6 FLOP for each dense "
             "element; 128 sentences of 25 words a GPU, words by Zipf's law.",
             "alpha of NMT is recalled as 0.65 of all elements; 128 sentences of at most 50 words and an end touch at "
             "most 6,528 of 36,548 rows of each embedding, which makes 0.636."))
