"""The residual network's entry in the registry, with its workloads, the figures of ResNet-50 and its golden trace.

The second and third steps of the golden trace are clipped.
"""

import numpy as np

from kernels.random import key_of, random_bits
from models.cnn.network import PRESETS, ConvNet
from models.data import Examples, Images
from models.data.images.noise import RandomImages
from models.golden import MICROBATCHES, SEED, Golden
from models.registry import ModelEntry
from models.variable import Variable
from models.workload import BoundedTraining, Paper, Workload


class ResNet50:
    """The variables of ResNet-50 (He et al. 2016, table 1), with one batch normalisation variable for each layer."""

    def __init__(self):
        self.variables, channels = [Variable("stem", (7 * 7 * 3, 64)), Variable("stem_norm", (2, 64))], 64
        for stage, count in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for block in range(count):
                shapes = {"reduce": (channels, width), "middle": (9 * width, width), "expand": (width, 4 * width)}
                if block == 0:
                    shapes["shortcut"] = (channels, 4 * width)
                for name, shape in shapes.items():
                    layer = f"{stage}.{block}.{name}"
                    self.variables += [Variable(layer, shape), Variable(f"{layer}_norm", (2, shape[1]))]
                channels = 4 * width
        self.variables += [Variable("head", (channels, 1000)), Variable("head_bias", (1000,))]


def _sizes(width, blocks):
    return dict(width=width, blocks=blocks, augment=False)


def _bounded(what, blocks, dtype, steps):
    small = Workload("tiny", "cnn", dict(width=4, blocks=blocks), dict(images=4, image_size=8, channels=1, classes=5))
    return BoundedTraining(what, small, dtype, "momentum", 0.05, steps)


PAPERS = Workload("cnn", "cnn", _sizes(8, (3, 4, 6, 3)))
"""ResNet-34's layout with an eighth of its width: the largest variable is 11 % of all, as in ResNet-50 (10 %)."""

WORKLOADS = {
    "throughput": PAPERS,
    "warm-up": Workload("warm-cnn", "cnn", _sizes(2, (1, 1)), dict(images=2, image_size=8)),
    "gpu": Workload("gpu", "cnn", _sizes(16, (1, 1, 1)), dict(images=128, image_size=32)),
}

BOUNDS = (_bounded("float32 momentum, one layer", (), "float32", 4),
          _bounded("float64 momentum, a block", (1,), "float64", 2))

PAPER = Paper(
    dense=23_800_000, sparse=0, alpha=1.0, examples=64, flop=6 * 4.1e9, efficiency=0.6, goals={"naive ps": 1.53},
    at_size=lambda ranks, seed: (ResNet50(), None),
    assumed=("Convolutions reach 60 % of a GPU's peak. ResNet-50 costs 6 x 4.1 GFLOP for an image forward and "
             "backward; 64 images a GPU.",
             "ResNet-50 as published has 25.6 M elements (docs/paper.md recalls 23.8 M)."))


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


ENTRY = ModelEntry(
    model=ConvNet, content=Images, presets=PRESETS, unit="images", quality="accuracy",
    defaults={"data": "digits", "microbatch_size": 16, "optimizer": "momentum", "learning_rate": 0.1, "rate": "cosine",
              "weight_decay": 5e-4},
    synthetic=lambda sizes, **shape: RandomImages(**shape),
    workloads=WORKLOADS, bounds=BOUNDS, reach={"gpu-cnn-step": 0.7}, paper=PAPER, golden=GOLDEN)
