"""The trainings that the golden traces are of: tiny, few steps, and with every edge that fits in.

Five microbatches: no power of two. The third step ends an epoch: microbatch 2 is short and 3 and 4 have no examples;
the fourth begins the next epoch. The norm clips every step of lm, that of dense gradients alone the third only, and of
cnn's the second and third. Nothing random is left to the reader: nothing is dropped out or augmented, and the
candidates of the sampled softmax are inputs.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Callable

import numpy as np

from kernels.random import key_of, random_bits, uniform
from models.cnn import PRESETS as CNN, ConvNet
from models.data import Examples, TokenStreams
from models.lm import PRESETS as LM, LanguageModel
from refimpl.training.options import Options

SEED, STEPS, MICROBATCHES = 7, 4, 5
SIZE = {**LM["tiny"], "keep": 1.0}
SHAPE, CLASSES = (8, 8, 1), 10


@dataclass(frozen=True)
class Recipe:
    """model: dtype -> model.  data: the microbatches.  samples: the same cut of the examples' numbers.

    about: JSON that describes the model to a reader in another language.
    """

    model: Callable[[str], Any]
    make_data: Callable[[], tuple[Any, Any]]
    options: Options
    about: dict

    @cached_property
    def data(self):
        return self.make_data()[0]

    @cached_property
    def samples(self):
        return self.make_data()[1]


def _text():
    """Words by Zipf's law; streams 0 to 4 have 9 pairs, streams 5 to 9 have 8, windows hold 4."""
    count = MICROBATCHES * 2 * 8 + 5 + 1
    tokens = np.floor(np.exp(uniform(key_of(SEED, "text"), count) * np.log(SIZE["vocabulary"] + 1.0))).astype(np.int64)
    tokens = np.minimum(tokens - 1, SIZE["vocabulary"] - 1)
    return tuple(TokenStreams(x, MICROBATCHES, streams=2, window=4) for x in (tokens, np.arange(count)))


def _images():
    """37 images in global batches of 15, 15 and 7."""
    count = 37
    pixels = (random_bits(key_of(SEED, "images"), count * 64) >> np.uint64(56)).astype(np.uint8)
    classes = (random_bits(key_of(SEED, "classes"), count) % np.uint64(CLASSES)).astype(np.int64)
    return tuple(Examples(x, classes, MICROBATCHES, size=3, seed=SEED)
                 for x in (pixels.reshape(count, *SHAPE), np.arange(count)))


RECIPES = {
    "lm": Recipe(
        lambda dtype: LanguageModel(**SIZE, dtype=dtype), _text,
        Options(steps=STEPS, seed=SEED, optimizer="adagrad", learning_rate=1.0, clip_norm=0.065),
        {"model": "lm", "code": "models/lm", **SIZE,
         "inputs": "(time, streams) word ids; weight 0: padding.  candidate_log_counts, target_log_counts: logarithms "
                   "of expected counts, subtracted from the logits"}),
    "cnn": Recipe(
        lambda dtype: ConvNet(SHAPE, CLASSES, **CNN["tiny"], augment=False, dtype=dtype), _images,
        Options(steps=STEPS, seed=SEED, optimizer="momentum", learning_rate=0.05, clip_norm=0.55),
        {"model": "cnn", "code": "models/cnn", "image_shape": list(SHAPE), "classes": CLASSES, **CNN["tiny"],
         "inputs": "(n, height, width, channels) uint8 images and (n,) classes"}),
}
