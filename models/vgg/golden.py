"""The VGG network's golden trace. There is no dropout. The first step and the third are clipped."""

from models.cnn.golden import CLASSES, SHAPE, images
from models.golden import Golden
from models.vgg.network import PRESETS, Vgg

SIZES = {**PRESETS["tiny"], "keep": 1.0}

GOLDEN = Golden(
    lambda dtype: Vgg(SHAPE, CLASSES, **SIZES, augment=False, dtype=dtype), images,
    {"optimizer": "momentum", "learning_rate": 0.05, "clip_norm": 0.75},
    {"image_shape": list(SHAPE), "classes": CLASSES, **SIZES,
     "inputs": "(n, height, width, channels) uint8 images and (n,) classes"})
