"""The residual network's golden trace. The second step and the third are clipped."""

import numpy as np

from kernels.random import key_of, random_bits
from models.cnn.network import PRESETS, ConvNet
from models.data import Examples
from models.golden import MICROBATCHES, SEED, Golden

SHAPE, CLASSES = (8, 8, 1), 10


def images():
    """Return 37 images in global batches of 15, 15 and 7, and their numbers."""
    count = 37
    pixels = (random_bits(key_of(SEED, "images"), count * 64) >> np.uint64(56)).astype(np.uint8)
    classes = (random_bits(key_of(SEED, "classes"), count) % np.uint64(CLASSES)).astype(np.int64)
    return tuple(Examples(x, classes, MICROBATCHES, size=3, seed=SEED)
                 for x in (pixels.reshape(count, *SHAPE), np.arange(count)))


GOLDEN = Golden(
    lambda dtype: ConvNet(SHAPE, CLASSES, **PRESETS["tiny"], augment=False, dtype=dtype), images,
    {"optimizer": "momentum", "learning_rate": 0.05, "clip_norm": 0.55},
    {"image_shape": list(SHAPE), "classes": CLASSES, **PRESETS["tiny"],
     "inputs": "(n, height, width, channels) uint8 images and (n,) classes"})
