"""Every network for images: what a microbatch contributes, and that it learns."""

import dataclasses

import numpy as np
import pytest
from image_networks import PRESETS, SHAPE, images, initial, tiny

from kernels.random import key_of
from models import STATISTIC_RATE, Batch
from models.cnn import ConvNet
from models.vgg import Vgg

each_kind = pytest.mark.parametrize("kind", [ConvNet, Vgg])


def equal(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


@each_kind
def test_equal_inputs_give_equal_bits_and_are_not_changed(kind):
    model = tiny(kind, dtype="float32")
    dense, batch = initial(model), images(5)
    before = {name: value.copy() for name, value in dense.items()}, batch.inputs.copy()
    first, second = (model.loss_and_gradients(dense, {}, batch) for _ in range(2))
    assert first[0] == second[0] and equal(first[1], second[1]) and isinstance(first[0], float)
    assert equal(dense, before[0]) and np.array_equal(batch.inputs, before[1])
    for v in model.variables:
        assert first[1][v.name].shape == v.shape and first[1][v.name].dtype == v.dtype == "float32"


@each_kind
def test_loss_and_gradients_are_divided_by_the_normaliser_alone(kind):
    model = tiny(kind)
    dense = initial(model)
    loss, gradients = model.loss_and_gradients(dense, {}, images(5, normaliser=1))
    loss4, gradients4 = model.loss_and_gradients(dense, {}, images(5, normaliser=4))  # a power of two: exact
    assert loss == 4 * loss4 and all(np.array_equal(gradients[name], 4 * gradients4[name]) for name in gradients)


@each_kind
@pytest.mark.parametrize("augment", [False, True])
def test_examples_of_weight_0_change_nothing(kind, augment):
    model = tiny(kind, augment=augment)
    dense, batch = initial(model), images(5)
    padded = dataclasses.replace(
        batch, inputs=np.concatenate([batch.inputs, np.full((3, *SHAPE), 255, np.uint8)]),
        targets=np.concatenate([batch.targets, np.zeros(3, int)]), weights=np.array([1, 1, 1, 1, 1, 0, 0, 0]))
    plain, with_padding = (model.loss_and_gradients(dense, {}, b) for b in (batch, padded))
    assert plain[0] == with_padding[0] and equal(plain[1], with_padding[1])
    assert model.evaluate(dense, {}, batch) == model.evaluate(dense, {}, padded)


@each_kind
@pytest.mark.parametrize("weights", [None, np.zeros(4)])
def test_a_microbatch_without_examples_adds_zero(kind, weights):
    model = tiny(kind)
    dense, batch = initial(model), images(0 if weights is None else 4, normaliser=8, weights=weights)
    loss, gradients = model.loss_and_gradients(dense, {}, batch)
    assert loss == 0 and gradients.keys() == dense.keys() and not any(g.any() for g in gradients.values())
    assert all(gradients[v.name].shape == v.shape and gradients[v.name].dtype == v.dtype for v in model.variables)
    assert model.evaluate(dense, {}, batch) == {"loss": 0.0, "count": 0, "correct": 0}


@pytest.mark.parametrize("kind, options, losses", [
    (ConvNet, {"augment": False}, 1), (ConvNet, {}, 3), (Vgg, {"keep": 1.0, "augment": False}, 1),
    (Vgg, {"augment": False}, 3), (Vgg, {"keep": 1.0}, 3)])
def test_dropout_and_augmentation_depend_on_the_batch_key_and_not_in_evaluation(kind, options, losses):
    model = tiny(kind, **options)
    dense, batch = initial(model), images(6)
    batches = [dataclasses.replace(batch, key=key_of(0, key)) for key in range(3)]
    assert len({model.loss_and_gradients(dense, {}, b)[0] for b in batches}) == losses
    assert len({model.evaluate(dense, {}, b)["loss"] for b in batches}) == 1


@each_kind
@pytest.mark.parametrize("sizes, message", [
    ({"image_shape": (8, 8)}, "give it three axes"), ({"image_shape": (8, 0, 1)}, "image_shape must be positive"),
    ({"image_shape": 8}, "image_shape must be"), ({"classes": 0}, "classes must be a positive integer, not 0"),
    ({"width": 1.5}, "width must be a positive integer, not 1.5"), ({"flip": 2}, "flip must be 1")])
def test_refuses_sizes_that_make_no_network(kind, sizes, message):
    with pytest.raises(ValueError, match=message):
        kind(**{"image_shape": (8, 8, 1), "classes": 10, **sizes})


@pytest.mark.parametrize("kind, rate, share", [
    (ConvNet, 0.05, 0.95),  # it gets 292 of 297 right; the margin is for a BLAS that rounds otherwise
    pytest.param(Vgg, 0.02, 0.93, marks=pytest.mark.thorough)])
def test_learns_digits_in_sixty_steps(kind, rate, share):
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    pictures = (digits.images[..., None] * 15.9375).astype(np.uint8)
    model = kind((8, 8, 1), 10, **PRESETS[kind]["small"], augment=False)
    dense, velocity = initial(model), {}
    order = np.random.default_rng(0).permutation(len(pictures))
    train, held_out = order[:1500], order[1500:]
    for step in range(60):
        chosen = train[np.arange(step * 64, (step + 1) * 64) % len(train)]
        batch = Batch(pictures[chosen], digits.target[chosen], normaliser=64.0, key=key_of(0, step))
        _, gradients = model.loss_and_gradients(dense, {}, batch)
        for v in model.variables:
            if v.statistic:
                dense[v.name] += np.float32(STATISTIC_RATE) * (gradients[v.name] - dense[v.name])
            else:
                velocity[v.name] = np.float32(0.9) * velocity.get(v.name, 0) + gradients[v.name]
                dense[v.name] = dense[v.name] - np.float32(rate) * velocity[v.name]
    result = model.evaluate(dense, {}, Batch(pictures[held_out], digits.target[held_out]))
    assert result["count"] == 297 and result["correct"] / 297 > share
