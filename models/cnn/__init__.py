"""A small residual network for small images: hand-written forward and backward over NumPy or CuPy arrays."""

from models.cnn.network import PRESETS, ConvNet

__all__ = ["PRESETS", "ConvNet"]
