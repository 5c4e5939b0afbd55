"""Random images: microbatches of a given shape for benchmarks, and ``random-images[:SHAPE]`` for ``refimpl plan``."""

import math
from dataclasses import dataclass

import numpy as np

from kernels.random import key_of, random_bits
from models.data.contents import Images
from models.data.examples import Examples
from models.data.files import DataError

MOST, BYTES, HELDOUT = 10_000, 2**25, 16
"""The numbers of images to train on (fewer if they exceed BYTES), and of held-out images."""


@dataclass(frozen=True)
class RandomImages:
    """Random bytes as square images, with random labels. images: in a microbatch."""

    images: int = 4
    image_size: int = 16
    channels: int = 3
    classes: int = 10

    def __str__(self):
        return f"{self.images} images {self.image_size} x {self.image_size}"

    @property
    def sizes(self) -> dict:
        """Sizes that a model of these images must have."""
        return {"image_shape": (self.image_size, self.image_size, self.channels), "classes": self.classes}

    @property
    def examples(self) -> int:
        return self.images

    def make(self, microbatches: int, seed: int, steps: int) -> Examples:
        """Return a ``Data`` of ``steps`` full steps, not shuffled. Local."""
        count, shape = microbatches * self.images * steps, self.sizes["image_shape"]
        drawn = drawn_images(count, shape, self.classes, seed)
        return Examples(*drawn, microbatches, self.images, seed, shuffle=False)


def drawn_images(count: int, shape, classes: int, seed):
    """Return images of random bytes, (count, *shape) uint8, and random labels, (count,) int64. Local."""
    size = count * math.prod(shape)
    images = random_bits(key_of(seed, "images"), size // 8 + 1).view(np.uint8)[:size].reshape(count, *shape)
    return images, (random_bits(key_of(seed, "labels"), count) % np.uint64(classes)).astype(np.int64)


def load_random_images(shape: str = "32x32x3x10") -> Images:
    """Return random images and labels for HEIGHTxWIDTHxCHANNELSxCLASSES. Local. Raises DataError."""
    sizes = [int(size) if size.isdecimal() else 0 for size in shape.split("x")]
    if len(sizes) != 4 or not all(sizes) or math.prod(sizes[:3]) > BYTES:
        raise DataError(f"random-images:{shape}: give HEIGHTxWIDTHxCHANNELSxCLASSES, as random-images:224x224x3x1000, "
                        f"and no image of more than {BYTES} bytes")
    *image, classes = sizes
    count = max(1, min(MOST, BYTES // math.prod(image)))
    return Images(f"random-images:{shape}", *drawn_images(count, image, classes, "train"),
                  *drawn_images(HELDOUT, image, classes, "heldout"), classes)
