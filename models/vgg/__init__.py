"""VGG networks: hand-written forward and backward over NumPy or CuPy arrays, with connected layers in column blocks."""

from models.vgg.network import PRESETS, Vgg

__all__ = ["PRESETS", "Vgg"]
