"""Batch normalisation of images, layout (n, height, width, channels), with an optional ReLU behind it."""

from kernels.arrays import version_for
from kernels.norm import cuda, definition, fast


def channel_statistics(x):
    """Return the mean and variance of every channel (see ``definition.channel_statistics``). Local."""
    if x.size == 0:
        raise ValueError(f"images of shape {x.shape} have no mean: leave an empty microbatch out")
    return _version(x).channel_statistics(x)


def normalize(x, mean, variance, scale, offset, epsilon, relu=False):
    """Return the images with every channel normalised (see ``definition.normalize``). Local."""
    return _version(x).normalize(x, mean, variance, scale, offset, epsilon, relu)


def normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu=False):
    """Return the gradients of x, scale and offset (see ``definition.normalize_backward``). Local."""
    return _version(grad, x).normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu)


def _version(*arrays):
    return version_for(fast, cuda, definition, *arrays)


__all__ = ["channel_statistics", "normalize", "normalize_backward"]
