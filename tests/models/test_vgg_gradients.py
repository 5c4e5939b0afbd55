"""Gradients of Vgg against central differences, and planted errors that must not pass."""

import numpy as np
import pytest

import kernels.conv
import kernels.pool
from models import Batch
from models.fully_connected import FullyConnected
from models.gradient_check import GradientError, check_gradients
from models.vgg import Vgg, stage


def model_and_batch(shape=(9, 6, 2), n=5, weights=None, **options):
    rng = np.random.default_rng(n)
    sizes = {"stages": (1, 2), "width": 4, "connected": (8, 12), "blocks": 4, "keep": 0.5, "flip": True, **options}
    images, targets = rng.integers(0, 256, (n, *shape)).astype(np.uint8), rng.integers(0, 4, n)
    return (Vgg(shape, 4, dtype="float64", **sizes),
            Batch(images, targets, weights=weights, normaliser=7.0, key=5))


@pytest.mark.parametrize("options", [{}, {"keep": 1.0}, {"n": 1}, {"weights": np.array([1, 0, 1, 1, 1])}], ids=str)
def test_gradients_are_the_losses_derivatives(options):
    result = check_gradients(*model_and_batch(**options), projections=1)
    assert result[""][2] < 1e-6 and len(result) == 13


def test_the_plain_definitions_train_the_same_network(monkeypatch):
    """What runs on arrays that no fast kernel takes."""
    for package in (kernels.conv, kernels.pool):
        monkeypatch.setattr(package, "version_for", lambda fast, cuda, definition, *arrays: definition)
    check_gradients(*model_and_batch(stages=1, connected=8), projections=1)


def to_the_last(grad, x):
    return true_pool_backward(grad, x[:, ::-1, ::-1])[:, ::-1, ::-1] * (1 + 1e-5)


def no_bias(layer, grad, x):
    weight, bias = true_weight_gradients(layer, grad, x)
    return weight, 2 * bias


def half_the_blocks(layer, grad, weight):
    half = len(weight) // 2
    return true_input_gradient(layer, grad[:, :half], weight[:half])


true_pool_backward, true_weight_gradients = stage.max_pool_backward, FullyConnected.weight_gradients
true_input_gradient = FullyConnected.input_gradient


@pytest.mark.parametrize("owner, function, wrong, culprit", [
    (stage, "max_pool_backward", to_the_last, "stage"), (FullyConnected, "weight_gradients", no_bias, "connected"),
    (FullyConnected, "input_gradient", half_the_blocks, "stage")])
def test_a_planted_wrong_gradient_is_found(owner, function, wrong, culprit, monkeypatch):
    model, batch = model_and_batch(shape=(8, 8, 2), stages=1, connected=8)
    monkeypatch.setattr(owner, function, wrong)
    with pytest.raises(GradientError, match=culprit):
        check_gradients(model, batch)
