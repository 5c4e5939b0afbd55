"""The head: global average pooling, then one linear layer to the logits."""

import math

from kernels.arrays import array_module
from models.variable import Uniform, Variable


def head_variables(name, channels, classes, dtype):
    """Return weight (channels, classes), initial variance 1 / (3 channels), and bias (classes,), zero."""
    return [Variable(f"{name}.weight", (channels, classes), initial=Uniform(1 / math.sqrt(channels)), dtype=dtype),
            Variable(f"{name}.bias", (classes,), dtype=dtype, decays=False)]


def head_forward(x, dense, name):
    """Return (logits, saved): mean of x over its pixels @ weight + bias.

    x: (n, h, w, channels).  logits: (n, classes).
    """
    pooled = x.mean(axis=(1, 2))
    return pooled @ dense[f"{name}.weight"] + dense[f"{name}.bias"], (pooled, x.shape)


def head_backward(grad, saved, dense, name, gradients):
    """Return the gradient of x; put the gradients of weight and bias into ``gradients``."""
    pooled, shape = saved
    gradients[f"{name}.weight"] = pooled.T @ grad
    gradients[f"{name}.bias"] = grad.sum(axis=0)
    grad_pooled = grad @ dense[f"{name}.weight"].T
    each_pixel = grad_pooled / grad.dtype.type(shape[1] * shape[2])
    return array_module(grad).broadcast_to(each_pixel[:, None, None, :], shape)
