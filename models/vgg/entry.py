"""The VGG network's entry in the registry, with its workloads and its golden trace.

The paper's experiment leaves the network out: it has no sparse variable. In the golden trace there is no dropout, and
the first step and the third are clipped.
"""

from models.cnn.entry import CLASSES, SHAPE, images
from models.data import Images
from models.data.images.noise import RandomImages
from models.golden import Golden
from models.registry import ModelEntry
from models.vgg.network import PRESETS, Vgg
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


_TRUE, _CIFAR = "random-images:224x224x3x1000", "random-images:32x32x3x10"


SIZES = {**PRESETS["tiny"], "keep": 1.0}

GOLDEN = Golden(
    lambda dtype: Vgg(SHAPE, CLASSES, **SIZES, augment=False, dtype=dtype), images,
    {"optimizer": "momentum", "learning_rate": 0.05, "clip_norm": 0.75},
    {"image_shape": list(SHAPE), "classes": CLASSES, **SIZES,
     "inputs": "(n, height, width, channels) uint8 images and (n,) classes"})


ENTRY = ModelEntry(
    model=Vgg, content=Images, presets=PRESETS, unit="images", quality="accuracy",
    defaults={"data": "digits", "microbatch_size": 16, "optimizer": "momentum", "learning_rate": 0.02, "rate": "cosine",
              "weight_decay": 5e-4},
    preset_data={"vgg16": _TRUE, "vgg-a": _TRUE, "vgg16-cifar": _CIFAR, "vgg-a-cifar": _CIFAR},
    synthetic=lambda sizes, **shape: RandomImages(**shape),
    workloads=WORKLOADS, bounds=BOUNDS, reach={"vgg-step": 1.0}, golden=GOLDEN)
