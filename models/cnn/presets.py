"""Sizes with a name: arguments of ConvNet beside the images' shape and the number of classes."""

PRESETS = {
    "small": {"width": 16, "blocks": (1, 1, 1)},
    "tiny": {"width": 4, "blocks": (1, 1)},
}
"""small: 78 thousand weights, 8 layers; for digits, fashion-mnist and cifar10. tiny: for tests."""
