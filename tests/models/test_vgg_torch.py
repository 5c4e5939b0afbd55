"""Vgg beside PyTorch: both lie in the enclosure of what any correct device can have computed: a proved bound."""

import dataclasses

import numpy as np
import pytest

from kernels.random import dropout_scale
from models import Batch
from models.fully_connected import dropout_key
from models.vgg import Vgg
from models.vision.images import normalize_images
from refimpl.enclosure import Enclosure

torch = pytest.importorskip("torch")
functional = torch.nn.functional
WIDEST = {"float32": 0.1, "float64": 1e-8}
"""Largest radius of a gradient as a part of its largest element. Radii know no signs: so one stage in float32."""
STAGES = {"float32": (1,), "float64": (1, 1)}


def whole_model(dtype, keep):
    model = Vgg((9, 8, 3), 5, stages=STAGES[dtype], width=4, connected=(8, 12), blocks=4, keep=keep, augment=False,
                dtype=dtype)
    rng = np.random.default_rng(5)
    batch = Batch(rng.integers(0, 256, (5, 9, 8, 3)).astype(np.uint8), rng.integers(0, 5, 5), normaliser=7.0, key=3)
    return model, batch, {v.name: v.initial_value(3) for v in model.variables}


def torch_loss(model, values, batch):
    """Return the loss by PyTorch's layers; dropped out is what we drop out: its own random numbers are others."""
    x = torch.tensor(normalize_images(batch.inputs, model.dtype)).permute(0, 3, 1, 2)
    for stage in model.stages:
        for layer in stage:
            weight = values[f"{layer.name}.weight"].permute(3, 2, 0, 1)
            x = functional.conv2d(x, weight, values[f"{layer.name}.bias"], padding=1).relu()
        x = functional.max_pool2d(x, 2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    for layer in model.connected:
        x = functional.linear(x, values[f"{layer.name}.weight"], values[f"{layer.name}.bias"])
        if not layer.last:
            x = x.relu() * torch.tensor(dropout_scale(dropout_key(batch.key, layer), x.shape, layer.keep, model.dtype))
    return functional.cross_entropy(x, torch.tensor(batch.targets), reduction="sum") / batch.normaliser


def torch_gradients(model, dense, batch):
    values = {name: torch.tensor(value, requires_grad=True) for name, value in dense.items()}
    loss = torch_loss(model, values, batch)
    loss.backward()
    return loss.item(), {name: value.grad.numpy() for name, value in values.items()}


def outside(balls, found):
    return [name for name, ball in balls.items()
            if not (np.abs(found[name].astype(float) - ball.middle) <= ball.radius).all()]


@pytest.mark.parametrize("keep", [1.0, 0.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_lie_in_the_enclosure(dtype, keep):
    model, batch, dense = whole_model(dtype, keep)
    points = {name: Enclosure.exact(value) for name, value in dense.items()}
    loss, balls = model.loss_and_gradients(points, {}, batch)
    assert all(ball.radius.max() < WIDEST[dtype] * np.abs(ball.middle).max() for ball in balls.values())
    for name, (found, gradients) in {"ours": model.loss_and_gradients(dense, {}, batch),
                                     "torch": torch_gradients(model, dense, batch)}.items():
        assert outside(balls, gradients) == [], name
        assert abs(found - loss.middle) <= loss.radius + 1e-7 * abs(found), name  # PyTorch's loss is a float32


def test_the_enclosure_sees_a_wrong_term():
    model, batch, dense = whole_model("float64", 0.5)
    _, balls = model.loss_and_gradients({name: Enclosure.exact(value) for name, value in dense.items()}, {}, batch)
    _, gradients = torch_gradients(model, dense, batch)
    for name, gradient in gradients.items():
        assert outside(balls, {**gradients, name: gradient * (1 + 2 * WIDEST["float64"])}) == [name]
    _, gradients = torch_gradients(model, dense, dataclasses.replace(batch, key=4))
    assert outside(balls, gradients)
