"""Tiny networks for images, their values, and random batches of images."""

import numpy as np

from models import Batch
from models.cnn import ConvNet
from models.cnn import PRESETS as CNN_PRESETS
from models.vgg import PRESETS as VGG_PRESETS
from models.vgg import Vgg

SHAPE, CLASSES = (7, 5, 3), 4
PRESETS = {ConvNet: CNN_PRESETS, Vgg: VGG_PRESETS}


def tiny(kind, shape=SHAPE, classes=CLASSES, dtype="float64", **changes):
    """Return a tiny network, ``ConvNet`` or ``Vgg``."""
    return kind(shape, classes, **{**PRESETS[kind]["tiny"], "dtype": dtype, **changes})


def initial(model):
    """Return name -> initial value."""
    return {v.name: v.initial_value(0) for v in model.variables}


def images(n, shape=SHAPE, seed=0, normaliser=None, **fields):
    """Return a batch of n images; n is its normaliser, too, unless there is another."""
    rng = np.random.default_rng(seed)
    pictures, targets = rng.integers(0, 256, (n, *shape)).astype(np.uint8), rng.integers(0, CLASSES, n)
    return Batch(pictures, targets, normaliser=float(n if normaliser is None else normaliser), key=11, **fields)
