"""Gradients of ConvNet against central differences, and planted errors that must not pass."""

import numpy as np
import pytest

import kernels.conv
import kernels.norm
from models import Batch
from models.cnn import ConvNet, block, network
from models.gradient_check import GradientError, check_gradients


def model_and_batch(shape=(7, 5, 3), n=5, width=4, blocks=(1, 1), weights=None):
    rng = np.random.default_rng(n)
    model = ConvNet(shape, 4, width=width, blocks=blocks, dtype="float64", flip=True)
    images, targets = rng.integers(0, 256, (n, *shape)).astype(np.uint8), rng.integers(0, 4, n)
    return model, Batch(images, targets, weights=weights, normaliser=7.0, key=5)


@pytest.mark.parametrize("options", [
    {},
    {"shape": (8, 8, 1), "n": 3, "blocks": (1, 2)},
    {"shape": (5, 5, 2), "n": 1},
    {"shape": (5, 6, 1), "n": 3, "width": 16, "blocks": (1,)},  # wide enough for Winograd's algorithm
    {"n": 4, "weights": np.array([1, 0, 1, 1])},
], ids=str)
@pytest.mark.thorough("weights", "'n': 1")
def test_gradients_are_the_losses_derivatives(options):
    result = check_gradients(*model_and_batch(**options))
    assert result[""][2] < 1e-6


def test_the_plain_definitions_train_the_same_network(monkeypatch):
    """What runs on arrays that no fast kernel takes."""
    model, batch = model_and_batch(width=16, blocks=(1,))
    for package in (kernels.conv, kernels.norm):
        monkeypatch.setattr(package, "fast", None)
        monkeypatch.setattr(package, "version_for", lambda fast, cuda, definition, *arrays: definition)
    check_gradients(model, batch, projections=1)


def scaled_kernel(*arguments, **options):
    grad_x = true_conv_backward(*arguments, **options)
    _, _, _, name, gradients = arguments[:5]
    gradients[f"{name}.weight"] = gradients[f"{name}.weight"] * (1 + 1e-5)
    return grad_x


def turned_kernel(*arguments, **options):
    grad_x = true_conv_backward(*arguments, **options)
    _, _, _, name, gradients = arguments[:5]
    gradients[f"{name}.weight"] = gradients[f"{name}.weight"][::-1, ::-1]
    return grad_x


def statistics_taken_for_constants(grad, saved, dense, name, gradients, share, relu=False):
    x, y, mean, variance = saved
    true_norm_backward(grad, saved, dense, name, gradients, share, relu)
    g = grad * (y > 0) if relu else grad
    return g * dense[f"{name}.scale"] / np.sqrt(variance + 1e-5)


def no_gradient_through_the_shortcut(grad, saved, dense, name, stride, gradients, share, half):
    x, hidden, y, norm1, norm2, shortcut_norm = saved
    grad_inner = true_norm_backward(grad * (y > 0), norm2, dense, f"{name}.norm2", gradients, share)
    grad_hidden = true_conv_backward(grad_inner, hidden, dense, f"{name}.conv2", gradients)
    grad_inner = true_norm_backward(grad_hidden, norm1, dense, f"{name}.norm1", gradients, share, relu=True)
    return true_conv_backward(grad_inner, x, dense, f"{name}.conv1", gradients, stride)


true_conv_backward, true_norm_backward = block.conv_backward, block.norm_backward


@pytest.mark.parametrize("module, function, wrong, culprit", [
    (network, "conv_backward", scaled_kernel, "stem.weight"),
    (block, "conv_backward", turned_kernel, "conv"),
    (block, "norm_backward", statistics_taken_for_constants, "stem"),
    (network, "block_backward", no_gradient_through_the_shortcut, "stem"),
])
def test_a_planted_wrong_gradient_is_found(module, function, wrong, culprit, monkeypatch):
    model, batch = model_and_batch(blocks=(1,))
    check_gradients(model, batch, projections=1)
    monkeypatch.setattr(module, function, wrong)
    with pytest.raises(GradientError, match=culprit):
        check_gradients(model, batch)
