"""The VGG network's entry in the registry."""

from models.data import Images
from models.data.images.noise import RandomImages
from models.registry import ModelEntry
from models.vgg.golden import GOLDEN
from models.vgg.network import PRESETS, Vgg
from models.vgg.workloads import BOUNDS, WORKLOADS

_TRUE, _CIFAR = "random-images:224x224x3x1000", "random-images:32x32x3x10"

ENTRY = ModelEntry(
    model=Vgg, content=Images, presets=PRESETS, unit="images", quality="accuracy",
    defaults={"data": "digits", "microbatch_size": 16, "optimizer": "momentum", "learning_rate": 0.02, "rate": "cosine",
              "weight_decay": 5e-4},
    preset_data={"vgg16": _TRUE, "vgg-a": _TRUE, "vgg16-cifar": _CIFAR, "vgg-a-cifar": _CIFAR},
    synthetic=lambda sizes, **shape: RandomImages(**shape),
    workloads=WORKLOADS, bounds=BOUNDS, reach={"vgg-step": 1.0}, golden=GOLDEN)
