"""What a source hands over: a text as numbered words, or images with labels; the same on every rank, read-only."""

from dataclasses import dataclass, field

import numpy as np

from models.data.errors import DataError
from models.data.fingerprint import fingerprint_of


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as word numbers.

    train, heldout: (n,) integer arrays, ids below ``vocabulary_size``; read-only.
    vocabulary:     the words, number i at position i, most frequent first as far as the source knows (log-uniform
                    candidate sampling expects that order); or only their number, for text that has no spelling.
    fingerprint:    hex SHA-256 of all of it.
    """

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
        """Number of different words."""
        return self.vocabulary if isinstance(self.vocabulary, int) else len(self.vocabulary)


@dataclass(frozen=True, eq=False)
class Images:
    """Labelled images.

    train_images, heldout_images: (n, height, width, channels) uint8, 0 … 255; read-only.
    train_labels, heldout_labels: (n,) int64, 0 … classes - 1; read-only.
    fingerprint:                  hex SHA-256 of all of it.
    """

    name: str
    train_images: np.ndarray
    train_labels: np.ndarray
    heldout_images: np.ndarray
    heldout_labels: np.ndarray
    classes: int
    fingerprint: str = field(init=False)

    def __post_init__(self):
        arrays = self.train_images, self.train_labels, self.heldout_images, self.heldout_labels
        freeze(*arrays)
        if self.train_images.shape[1:] != self.heldout_images.shape[1:]:
            shapes = f"{self.train_images.shape} and {self.heldout_images.shape}"
            raise DataError(f"{self.name}: images to train on and held-out images differ in size: {shapes}")
        object.__setattr__(self, "fingerprint", fingerprint_of(*arrays, self.classes))


def freeze(*arrays):
    """Make arrays read-only, because batches are views of them. Local."""
    for array in arrays:
        array.flags.writeable = False
