"""The content of a data source: a text as numbered words, or images with labels. It is the same on every rank.

Both classes have
    kind                what they hold
    sizes               sizes that a model of them must have
    suggested           sizes that a model of them may have
    cut(recipe, seed)   returns the training data and the held-out data, in the microbatches of a recipe
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from models.data.files import DataError
from models.data.examples import Examples
from models.data.protocol import fingerprint_of
from models.data.streams import TokenStreams


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as word numbers.

    train, heldout: (n,) integer arrays, ids below ``vocabulary_size``; read-only.
    vocabulary:     the words, number i at position i. If the source knows their frequency, the most frequent come
                    first, as log-uniform candidate sampling expects. For text without spelling: the number of words.
    fingerprint:    hex SHA-256 of the content.
    """

    kind: ClassVar[str] = "text"
    suggested: ClassVar[dict] = {}

    name: str
    train: np.ndarray
    heldout: np.ndarray
    vocabulary: list[str] | int
    fingerprint: str = field(init=False)

    def __post_init__(self):
        freeze(self.train, self.heldout)
        object.__setattr__(self, "fingerprint", fingerprint_of(self.train, self.heldout, self.vocabulary))

    @property
    def vocabulary_size(self) -> int:
        """The number of different words."""
        return self.vocabulary if isinstance(self.vocabulary, int) else len(self.vocabulary)

    @property
    def sizes(self) -> dict:
        """Sizes that a model of this text must have."""
        return {"vocabulary": self.vocabulary_size}

    def cut(self, recipe, seed: int) -> tuple[TokenStreams, TokenStreams]:
        """Return the text in streams, and the first ``recipe.heldout`` words of the held-out text. Local."""
        cut = recipe.microbatches, recipe.microbatch_size, recipe.window
        require_enough(len(self.train) - 1, "words to predict", recipe)
        _require_window(len(self.train) - 1, recipe)
        return TokenStreams(self.train, *cut), TokenStreams(self.heldout[:recipe.heldout + 1], *cut)


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images.

    train_images, heldout_images: (n, height, width, channels) uint8, 0 … 255; read-only.
    train_labels, heldout_labels: (n,) int64, 0 … classes - 1; read-only.
    augment, flip:                whether they may be shifted, and whether they may be mirrored (digits may not).
    fingerprint:                  hex SHA-256 of the content.
    """

    kind: ClassVar[str] = "images"

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    heldout_images: np.ndarray
    heldout_labels: np.ndarray
    classes: int
    augment: bool = True
    flip: bool = False
    fingerprint: str = field(init=False)

    def __post_init__(self):
        arrays = self.train_images, self.train_labels, self.heldout_images, self.heldout_labels
        freeze(*arrays)
        if self.train_images.shape[1:] != self.heldout_images.shape[1:]:
            shapes = f"{self.train_images.shape} and {self.heldout_images.shape}"
            raise DataError(f"{self.name}: images to train on and held-out images differ in size: {shapes}")
        object.__setattr__(self, "fingerprint", fingerprint_of(*arrays, self.classes))

    @property
    def sizes(self) -> dict:
        """Sizes that a model of these images must have: their shape (height, width, channels), and classes."""
        return {"image_shape": self.train_images.shape[1:], "classes": self.classes}

    @property
    def suggested(self) -> dict:
        """Sizes that a model of these images may have."""
        return {"augment": self.augment, "flip": self.flip}

    def cut(self, recipe, seed: int) -> tuple[Examples, Examples]:
        """Return the images, shuffled, and the first ``recipe.heldout`` held-out images, not shuffled. Local."""
        many, size = recipe.heldout, recipe.microbatch_size
        require_enough(len(self.train_images), "images", recipe)
        return (Examples(self.train_images, self.train_labels, recipe.microbatches, size, seed),
                Examples(self.heldout_images[:many], self.heldout_labels[:many], recipe.microbatches, max(size, 64),
                         seed, shuffle=False))


def require_enough(count, what, recipe):
    """Raise DataError if a microbatch of the recipe has more examples than the data. Local."""
    if recipe.microbatch_size > max(count, 1):
        raise DataError(f"microbatches of {recipe.microbatch_size}: {recipe.data} has {count} {what} to train on; give "
                        f"--microbatch-size {max(count, 1)} or less")


def _require_window(count, recipe):
    longest = -(-count // (recipe.microbatches * recipe.microbatch_size))
    if recipe.microbatches <= count and recipe.window > longest:  # the trainer refuses more microbatches
        raise DataError(f"windows of {recipe.window}: each of {recipe.microbatches} x {recipe.microbatch_size} streams "
                        f"of {recipe.data} has at most {longest} words to predict; give --window {longest} or less, or "
                        "fewer streams by --microbatches and --microbatch-size")


def freeze(*arrays):
    """Make arrays read-only, because batches are views of them. Local."""
    for array in arrays:
        array.flags.writeable = False
