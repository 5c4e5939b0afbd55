"""What a cell of the experiment trains: sizes of a model and of its microbatches, and synthetic data of that shape."""

from dataclasses import asdict, dataclass, field

import numpy as np

from kernels.random import key_of, random_bits
from models import Batch
from models.cnn import ConvNet
from models.data import Examples, TokenStreams, fingerprint_of
from models.data.text.synthetic import load_synthetic
from models.lm import LanguageModel

STEPS_OF_TEXT = 16
"""Steps until the synthetic text begins anew: more than a cell has."""


@dataclass(frozen=True)
class Workload:
    """A model and its microbatches, as plain data.

    sizes: arguments of LanguageModel or ConvNet.  streams, window: a microbatch of lm is window words of each stream.
    distinct: all words of a microbatch differ, so that alpha of the embedding is streams * window / vocabulary; else
    they are Zipf-distributed text.  images, image_size: a microbatch of cnn.
    """

    name: str
    model: str
    sizes: dict = field(default_factory=dict)
    streams: int = 8
    window: int = 20
    distinct: bool = False
    images: int = 4
    image_size: int = 16

    def to_json(self) -> dict:
        return asdict(self)

    @property
    def examples(self) -> int:
        """Words or images in a microbatch."""
        return self.streams * self.window if self.model == "lm" else self.images

    @property
    def unit(self) -> str:
        return "words" if self.model == "lm" else "images"

    def make_model(self):
        """Return the model. Local; it holds no parameters."""
        if self.model == "lm":
            return LanguageModel(**self.sizes)
        sizes = {**self.sizes, "blocks": tuple(self.sizes["blocks"])}
        return ConvNet((self.image_size, self.image_size, 3), 10, augment=False, **sizes)

    def make_data(self, microbatches: int, seed: int = 0):
        """Return the data, cut for V = ``microbatches``. Local: the same on every rank that asks."""
        if self.model == "cnn":
            return _images(self, microbatches, seed)
        if self.distinct:
            return DistinctWords(self.sizes["vocabulary"], microbatches, self.streams, self.window, seed)
        tokens = microbatches * self.examples * STEPS_OF_TEXT + 1
        corpus = load_synthetic(str(self.sizes["vocabulary"]), tokens, 0, seed)
        return TokenStreams(corpus.train, microbatches, self.streams, self.window)


    def make_heldout(self, microbatches: int, seed: int = 0):
        """Return held-out text of lm, cut for V: one window of every stream. Local."""
        corpus = load_synthetic(str(self.sizes["vocabulary"]), 0, microbatches * self.examples + 1, seed)
        return TokenStreams(corpus.heldout, microbatches, self.streams, self.window)


class DistinctWords:
    """A ``Data`` of windows whose words all differ, so that alpha is exact: docs/paper.md, Sparsity-degree experiment.

    Step s, microbatch v reads and scores the first window * streams words of two random orders of the vocabulary.
    """

    def __init__(self, vocabulary: int, microbatches: int, streams: int, window: int, seed: int):
        if streams * window > vocabulary:
            raise ValueError(f"{streams} x {window} words cannot differ in a vocabulary of {vocabulary}")
        self.vocabulary, self.microbatches, self.shape, self.seed = vocabulary, microbatches, (window, streams), seed
        self.steps_per_epoch = STEPS_OF_TEXT

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of what the words depend on."""
        return fingerprint_of("distinct words", self.vocabulary, self.microbatches, *self.shape, self.seed)

    def examples(self, step: int) -> int:
        """Return the targets of a step."""
        return self.microbatches * self.shape[0] * self.shape[1]

    def starts_epoch(self, step: int) -> bool:
        """Return True where state begins anew."""
        return step % self.steps_per_epoch == 0

    def microbatch(self, step: int, index: int) -> Batch:
        """Return inputs and targets (window, streams) int64."""
        words = [self._words(part, step, index) for part in ("inputs", "targets")]
        return Batch(*words, None, float(self.examples(step)))

    def _words(self, part, step, index):
        key = key_of(self.seed, "distinct", part, step % self.steps_per_epoch, index)
        order = np.argsort(random_bits(key, self.vocabulary))
        return order[:self.shape[0] * self.shape[1]].reshape(self.shape).astype(np.int64, copy=False)


def _images(workload, microbatches, seed):
    count = microbatches * workload.images * STEPS_OF_TEXT
    side = workload.image_size
    bits = random_bits(key_of(seed, "images"), count * side * side * 3 // 8 + 1)
    images = bits.view(np.uint8)[:count * side * side * 3].reshape(count, side, side, 3)
    labels = (random_bits(key_of(seed, "labels"), count) % np.uint64(10)).astype(np.int64)
    return Examples(images, labels, microbatches, workload.images, seed, shuffle=False)
