"""The VGG network's workloads for benchmarks. The paper's experiment leaves it out: it has no sparse variable."""

from models.vgg.network import PRESETS
from models.workload import BoundedTraining, Workload


def _bounded(what, stages, dtype, steps):
    sizes = dict(stages=stages, width=4, connected=(8,), blocks=4, augment=False)
    small = Workload("tiny", "vgg", sizes, dict(images=4, image_size=8, channels=1, classes=5))
    return BoundedTraining(what, small, dtype, "momentum", 0.05, steps)


WORKLOADS = {
    "step": Workload("step", "vgg", {**PRESETS["small"], "augment": False}, dict(images=64, image_size=32)),
    "mesh": Workload("mesh", "vgg", {**PRESETS["vgg-a-cifar"], "augment": False}, dict(images=16, image_size=32)),
}

BOUNDS = (_bounded("float32 momentum, one convolution", (1,), "float32", 2),
          _bounded("float64 momentum, two stages", (1, 1), "float64", 2))
