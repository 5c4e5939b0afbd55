"""Batch normalisation of images, layout (n, height, width, channels), with an optional ReLU after it."""

from kernels.arrays import version_for
from kernels.norm import cuda, definition, fast


def channel_statistics(x):
    """Return the mean and variance of every channel (see ``definition.channel_statistics``). Local."""
    if x.size == 0:
        raise ValueError(f"images of shape {x.shape} have no mean: leave an empty microbatch out")
    return version_for(fast, cuda, definition, x).channel_statistics(x)


def normalize(x, mean, variance, scale, offset, epsilon, relu=False):
    """Return the images with every channel normalised (see ``definition.normalize``). Local."""
    return version_for(fast, cuda, definition, x).normalize(x, mean, variance, scale, offset, epsilon, relu)


def normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu=False):
    """Return the gradients of x, scale and offset (see ``definition.normalize_backward``). Local."""
    version = version_for(fast, cuda, definition, grad, x)
    return version.normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu)
