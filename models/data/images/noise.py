"""Random images in microbatches of a given shape, for benchmarks and experiments."""

from dataclasses import dataclass

import numpy as np

from kernels.random import key_of, random_bits
from models.data.examples import Examples


@dataclass(frozen=True)
class RandomImages:
    """A microbatch is ``images`` square images of random bytes, with random labels."""

    images: int = 4
    image_size: int = 16
    channels: int = 3
    classes: int = 10

    def __str__(self):
        return f"{self.images} images {self.image_size} x {self.image_size}"

    @property
    def sizes(self) -> dict:
        """Sizes that a model of it must have."""
        return {"image_shape": (self.image_size, self.image_size, self.channels), "classes": self.classes}

    @property
    def examples(self) -> int:
        """Images in a microbatch."""
        return self.images

    def make(self, microbatches: int, seed: int, steps: int) -> Examples:
        """Return a ``Data`` of ``steps`` full steps, not shuffled. Local."""
        count, shape = microbatches * self.images * steps, self.sizes["image_shape"]
        size = count * int(np.prod(shape))
        images = random_bits(key_of(seed, "images"), size // 8 + 1).view(np.uint8)[:size].reshape(count, *shape)
        labels = (random_bits(key_of(seed, "labels"), count) % np.uint64(self.classes)).astype(np.int64)
        return Examples(images, labels, microbatches, self.images, seed, shuffle=False)
