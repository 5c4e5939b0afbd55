"""The language model's entry in the registry, with its workloads, the paper's figures and its golden trace.

Every step of the golden trace is clipped. With the norm of the dense gradients alone, only the third would be.
"""

import numpy as np

from kernels.random import key_of, uniform
from models.data import Corpus, TokenStreams
from models.data.text.windows import SyntheticText
from models.golden import MICROBATCHES, SEED, Golden
from models.lm.model import PRESETS, LanguageModel
from models.registry import ModelEntry
from models.workload import BoundedTraining, ByLength, Paper, Workload


def _sizes(vocabulary, width, hidden, projection, samples):
    return dict(vocabulary=vocabulary, embedding=width, hidden=hidden, projection=projection, layers=1,
                samples=samples, keep=0.9)


PAPERS = Workload("lm", "lm", _sizes(49_592, 128, 128, 128, 512))
"""The paper's model with a quarter of every width (projection 512 -> 128), and a sixteenth of the LSTM's state, the
vocabulary, the candidates and the words of a microbatch. Dense and sparse elements are a 64th; α is the same.
"""

_SENTENCES, _VOCABULARY, _WIDTH, _LONGEST = 128, 15_360, 128, 120  # of the paper's sparsity-degree experiment
_WORDS = _SENTENCES * _LONGEST

BY_LENGTH = ByLength(
    {length: Workload(f"length-{length}", "lm", _sizes(_VOCABULARY // 8, _WIDTH, _WIDTH, 0, _SENTENCES // 8 * length),
                      dict(streams=_SENTENCES // 8, window=length, distinct=True))
     for length in (_LONGEST, 60, 30, 12, 4, 1)},
    flop=6 * _WORDS * (2 * _WIDTH * 4 * _WIDTH + _WORDS * _WIDTH),  # 2 an element and word forward, twice that backward
    elements=_VOCABULARY * _WIDTH, our_elements=_VOCABULARY // 8 * _WIDTH)
"""The paper's sparsity-degree experiment with an eighth of the vocabulary and sentences, and the same LSTM state;
samples = sentences x length. Words of a microbatch all differ: with 120 words every row is touched.
"""

RACED = Workload("training", "lm", {**PRESETS["small"], "vocabulary": 100_000, "samples": 4096})
"""The preset small with other rows: in a step a rank touches 2 % of the rows, about 1.7 times the dense elements, as in
the authors' model (docs/paper.md, Models). More words per rank would touch hardly more rows, but add computation.
"""

HEAVY = Workload("heavy", "lm", _sizes(10_000, 128, 512, 128, 512), dict(streams=64))
"""Its computation and its exchanges take about equally long, so a wrong replay would be noticed."""

TINY = Workload("tiny", "lm", PRESETS["tiny"], dict(streams=2, window=4))

WORKLOADS = {
    "throughput": PAPERS,
    "partitions": PAPERS,
    "convergence": Workload("learner", "lm", _sizes(4000, 64, 64, 0, 256)),
    "replay-check": HEAVY,
    "warm-up": Workload("warm-lm", "lm", _sizes(200, 4, 8, 4, 20), dict(streams=2, window=4)),
    "step": Workload("step", "lm", PRESETS["small"], dict(streams=64)),
    "training": RACED,
    "channel": TINY,
    "gpu": Workload("gpu", "lm", _sizes(100_000, 512, 2048, 512, 8192), dict(streams=128, window=20)),
}

BOUNDS = (BoundedTraining("float32 adagrad", TINY, "float32", "adagrad", 0.2, 2),
          BoundedTraining("float64 adam", TINY, "float64", "adam", 0.01, 4))


def at_size(ranks: int, seed: int):
    """Return the paper's model, and synthetic text for ``ranks`` workers. Local; it allocates no parameters."""
    model = LanguageModel(**PRESETS["paper"])
    return model, SyntheticText(model.vocabulary, 128, 20).make(ranks, seed, 2)


PAPER = Paper(
    dense=9_445_376, sparse=813_306_750, alpha=0.02, examples=128 * 20, at_size=at_size,
    flop=6 * (9_445_376 + 8192 * 512),  # 2 an element and word forward, twice that backward, of LSTM and softmax
    efficiency=0.3, goals={"allreduce": 6.02, "naive ps": 2.8},
    assumed=("The LSTM reaches 30 % of a GPU's peak. A word costs 6 FLOP for each dense element and each scored "
             "candidate's element.",
             "alpha of the LM is 0.02 of all elements, dense ones counting 1 (docs/paper.md): so a worker's rows are "
             "0.74 of the dense elements.",
             "At the paper's size the LM's rows are those of synthetic Zipf text, 2,560 words a GPU, and of 8,192 "
             "log-uniform candidates each."))


SIZES = {**PRESETS["tiny"], "keep": 1.0}


def text():
    """Return Zipf-distributed words and their indices. Streams 0 to 4 have 9 pairs, 5 to 9 have 8; a window has 4."""
    count = MICROBATCHES * 2 * 8 + 5 + 1
    drawn = np.exp(uniform(key_of(SEED, "text"), count) * np.log(SIZES["vocabulary"] + 1.0))
    tokens = np.minimum(np.floor(drawn).astype(np.int64) - 1, SIZES["vocabulary"] - 1)
    return tuple(TokenStreams(x, MICROBATCHES, streams=2, window=4) for x in (tokens, np.arange(count)))


GOLDEN = Golden(
    lambda dtype: LanguageModel(**SIZES, dtype=dtype), text,
    {"optimizer": "adagrad", "learning_rate": 1.0, "clip_norm": 0.065},
    {**SIZES, "inputs": "(time, streams) word ids; weight 0: padding.  candidate_log_counts, target_log_counts: "
                        "logarithms of expected counts, subtracted from the logits"})


def fit(sizes: dict) -> dict:
    """Return the sizes with at most as many candidates as words. The model refuses an invalid number of candidates."""
    samples = sizes["samples"]
    return {**sizes, "samples": min(samples, sizes["vocabulary"])} if isinstance(samples, int) else sizes


ENTRY = ModelEntry(
    model=LanguageModel, content=Corpus, presets=PRESETS, unit="words", quality="perplexity", fit=fit,
    defaults={"data": "shakespeare", "microbatch_size": 8, "optimizer": "adagrad", "learning_rate": 0.2,
              "clip_norm": 10.0},  # the authors' choice (docs/paper.md, Models)
    synthetic=lambda sizes, **shape: SyntheticText(sizes["vocabulary"], **shape),
    workloads=WORKLOADS, by_length=BY_LENGTH, bounds=BOUNDS, reach={"lm-step": 1.0, "gpu-lm-step": 1.0}, paper=PAPER,
    golden=GOLDEN)
