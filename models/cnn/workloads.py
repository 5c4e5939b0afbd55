"""The residual network's workloads for benchmarks and the paper's experiment, and the paper's figures for ResNet-50."""

from models.cnn.resnet50 import ResNet50
from models.paper import Paper
from models.workload import BoundedTraining, Workload


def _sizes(width, blocks):
    return dict(width=width, blocks=blocks, augment=False)


def _bounded(what, blocks, dtype, steps):
    small = Workload("tiny", "cnn", dict(width=4, blocks=blocks), dict(images=4, image_size=8, channels=1, classes=5))
    return BoundedTraining(what, small, dtype, "momentum", 0.05, steps)


PAPERS = Workload("cnn", "cnn", _sizes(8, (3, 4, 6, 3)))
"""ResNet-34's layout at an eighth of its width: the largest variable is 11 % of all, as in ResNet-50 (10 %)."""

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
