"""The language model's golden trace. Every step is clipped; by the dense gradients alone only the third would be."""

import numpy as np

from kernels.random import key_of, uniform
from models.data import TokenStreams
from models.golden import MICROBATCHES, SEED, Golden
from models.lm.model import PRESETS, LanguageModel

SIZES = {**PRESETS["tiny"], "keep": 1.0}


def text():
    """Return Zipf-distributed words and their places. Streams 0 to 4 have 9 pairs, 5 to 9 have 8; a window has 4."""
    count = MICROBATCHES * 2 * 8 + 5 + 1
    drawn = np.exp(uniform(key_of(SEED, "text"), count) * np.log(SIZES["vocabulary"] + 1.0))
    tokens = np.minimum(np.floor(drawn).astype(np.int64) - 1, SIZES["vocabulary"] - 1)
    return tuple(TokenStreams(x, MICROBATCHES, streams=2, window=4) for x in (tokens, np.arange(count)))


GOLDEN = Golden(
    lambda dtype: LanguageModel(**SIZES, dtype=dtype), text,
    {"optimizer": "adagrad", "learning_rate": 1.0, "clip_norm": 0.065},
    {**SIZES, "inputs": "(time, streams) word ids; weight 0: padding.  candidate_log_counts, target_log_counts: "
                        "logarithms of expected counts, subtracted from the logits"})
