"""The residual network's entry in the registry."""

from models.cnn.golden import GOLDEN
from models.cnn.network import PRESETS, ConvNet
from models.cnn.workloads import BOUNDS, PAPER, WORKLOADS
from models.data import Images
from models.data.images.noise import RandomImages
from models.registry import ModelEntry

ENTRY = ModelEntry(
    model=ConvNet, content=Images, presets=PRESETS, unit="images", quality="accuracy",
    defaults={"data": "digits", "microbatch_size": 16, "optimizer": "momentum", "learning_rate": 0.1, "rate": "cosine",
              "weight_decay": 5e-4},
    synthetic=lambda sizes, **shape: RandomImages(**shape),
    workloads=WORKLOADS, bounds=BOUNDS, reach={"gpu-cnn-step": 0.7}, paper=PAPER, golden=GOLDEN)
