"""A small residual network for small images: hand-written forward and backward over NumPy or CuPy arrays."""

from models.cnn.network import ConvNet
from models.cnn.presets import PRESETS

__all__ = ["PRESETS", "ConvNet"]
