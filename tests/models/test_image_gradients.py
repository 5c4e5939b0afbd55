"""Gradients of the networks for images against central differences, and planted errors that must not pass."""

import numpy as np
import pytest
from image_networks import images, tiny

import kernels.conv
import kernels.norm
import kernels.pool
from models.cnn import ConvNet, block, network
from models.fully_connected import FullyConnected
from models.gradient_check import GradientError, check_gradients
from models.vgg import Vgg, stage


def model_and_batch(kind, shape=(7, 6, 3), n=5, weights=None, **sizes):
    return tiny(kind, shape, flip=True, **sizes), images(n, shape, n, 7.0, weights=weights)


@pytest.mark.parametrize("kind, options", [
    (ConvNet, {}),
    (ConvNet, {"shape": (8, 8, 1), "n": 3, "blocks": (1, 2)}),
    (ConvNet, {"shape": (5, 5, 2), "n": 1}),
    (ConvNet, {"shape": (5, 6, 1), "n": 3, "width": 16, "blocks": (1,)}),  # wide enough for Winograd's algorithm
    (ConvNet, {"n": 4, "weights": np.array([1, 0, 1, 1])}),
    (Vgg, {}), (Vgg, {"keep": 1.0}), (Vgg, {"n": 1}), (Vgg, {"weights": np.array([1, 0, 1, 1, 1])}),
], ids=str)
@pytest.mark.thorough("weights", "'n': 1", "Vgg")
def test_gradients_are_the_losses_derivatives(kind, options):
    model, batch = model_and_batch(kind, **options)
    result = check_gradients(model, batch, projections=1 if kind is Vgg else 2)
    assert result[""][2] < 1e-6 and len(result) == len(model.variables) + 1


SMALL = {ConvNet: {"blocks": (1,)}, Vgg: {"stages": 1, "connected": 8}}


@pytest.mark.parametrize("kind, more", [(ConvNet, {"width": 16}), (Vgg, {})])
def test_the_plain_definitions_train_the_same_network(kind, more, monkeypatch):
    """What runs on arrays that no fast kernel takes."""
    for package in (kernels.conv, kernels.norm, kernels.pool):
        monkeypatch.setattr(package, "version_for", lambda fast, cuda, definition, *arrays: definition)
    check_gradients(*model_and_batch(kind, **SMALL[kind], **more), projections=1)


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


def to_the_last(grad, x):
    return true_pool_backward(grad, x[:, ::-1, ::-1])[:, ::-1, ::-1] * (1 + 1e-5)


def no_bias(layer, grad, x):
    weight, bias = true_weight_gradients(layer, grad, x)
    return weight, 2 * bias


def half_the_blocks(layer, grad, weight):
    half = len(weight) // 2
    return true_input_gradient(layer, grad[:, :half], weight[:half])


true_conv_backward, true_norm_backward = block.conv_backward, block.norm_backward
true_pool_backward, true_weight_gradients = stage.max_pool_backward, FullyConnected.weight_gradients
true_input_gradient = FullyConnected.input_gradient


@pytest.mark.parametrize("kind, owner, function, wrong, culprit", [
    (ConvNet, network, "conv_backward", scaled_kernel, "stem.weight"),
    (ConvNet, block, "conv_backward", turned_kernel, "conv"),
    (ConvNet, block, "norm_backward", statistics_taken_for_constants, "stem"),
    (ConvNet, network, "block_backward", no_gradient_through_the_shortcut, "stem"),
    (Vgg, stage, "max_pool_backward", to_the_last, "stage"),
    (Vgg, FullyConnected, "weight_gradients", no_bias, "connected"),
    (Vgg, FullyConnected, "input_gradient", half_the_blocks, "stage")])
def test_a_planted_wrong_gradient_is_found(kind, owner, function, wrong, culprit, monkeypatch):
    model, batch = model_and_batch(kind, (8, 8, 2), **SMALL[kind])
    monkeypatch.setattr(owner, function, wrong)
    with pytest.raises(GradientError, match=culprit):
        check_gradients(model, batch)
