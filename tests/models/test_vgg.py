"""Vgg: its sizes, what a microbatch contributes, what it refuses, and that it learns."""

import dataclasses

import numpy as np
import pytest

from kernels.random import key_of
from models import Batch
from models.recipe import build, recipe_of
from models.vgg import PRESETS, Vgg
from refimpl.cli import main

SHAPE, CLASSES = (7, 5, 3), 4


def network(shape=SHAPE, classes=CLASSES, dtype="float64", **options):
    return Vgg(shape, classes, **{**PRESETS["tiny"], "dtype": dtype, **options})


def initial(model, seed=0):
    return {v.name: v.initial_value(seed) for v in model.variables}


def batch_of(n, normaliser=None, **fields):
    rng = np.random.default_rng(0)
    images, targets = rng.integers(0, 256, (n, *SHAPE)).astype(np.uint8), rng.integers(0, CLASSES, n)
    return Batch(images, targets, normaliser=float(n if normaliser is None else normaliser), key=11, **fields)


def equal(left, right):
    return left.keys() == right.keys() and all(np.array_equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("preset, weights, layers", [("vgg16", 138_357_544, 16), ("vgg-a", 132_863_336, 11)])
def test_the_true_networks_have_the_authors_weights(preset, weights, layers):
    model = Vgg((224, 224, 3), 1000, **PRESETS[preset])
    assert sum(v.size for v in model.variables) == weights and len(model.layers) == layers
    assert all(layer.blocks == 8 for layer in model.connected)
    assert sum(layer.weights + layer.outputs for layer in model.layers) == weights


def test_layers_are_as_a_plan_sees_them():
    model = Vgg((224, 224, 3), 1000, **PRESETS["vgg16"])
    shapes = {v.name: v.shape for v in model.variables}
    for layer, following in zip(model.layers, model.layers[1:]):
        expected = (layer.outputs, layer.inputs) if layer.connected else (3, 3, layer.inputs, layer.outputs)
        assert shapes[f"{layer.name}.weight"] == expected and shapes[f"{layer.name}.bias"] == (layer.outputs,)
        pooled = layer.activations_out // following.activations_in
        assert pooled == (4 if layer.name.partition(".")[0] != following.name.partition(".")[0] and
                          not layer.connected else 1)
    assert sum(layer.products for layer in model.layers) == 15_470_264_320  # the well-known 15.5 billion
    assert [layer.connected for layer in model.layers] == [False] * 13 + [True] * 3


def test_the_output_layer_has_blocks_where_they_divide_the_classes():
    assert [layer.blocks for layer in network(classes=8).connected] == [4, 4, 4]
    assert [layer.blocks for layer in network(classes=10).connected] == [4, 4, 1]


def test_equal_inputs_give_equal_bits_and_are_not_changed():
    model = network(dtype="float32")
    dense, batch = initial(model), batch_of(5)
    before = {name: value.copy() for name, value in dense.items()}, batch.inputs.copy()
    first, second = (model.loss_and_gradients(dense, {}, batch) for _ in range(2))
    assert first[0] == second[0] and equal(first[1], second[1]) and isinstance(first[0], float)
    assert equal(dense, before[0]) and np.array_equal(batch.inputs, before[1])
    for v in model.variables:
        assert first[1][v.name].shape == v.shape and first[1][v.name].dtype == v.dtype == "float32"
        assert v.decays == v.name.endswith("weight")


def test_loss_and_gradients_are_divided_by_the_normaliser_alone():
    model = network()
    dense = initial(model)
    loss, gradients = model.loss_and_gradients(dense, {}, batch_of(5, normaliser=1))
    loss4, gradients4 = model.loss_and_gradients(dense, {}, batch_of(5, normaliser=4))  # a power of two: exact
    assert loss == 4 * loss4 and all(np.array_equal(gradients[name], 4 * gradients4[name]) for name in gradients)


@pytest.mark.parametrize("augment", [False, True])
def test_examples_of_weight_0_change_nothing(augment):
    model = network(augment=augment)
    dense, batch = initial(model), batch_of(5)
    padded = dataclasses.replace(
        batch, inputs=np.concatenate([batch.inputs, np.full((3, *SHAPE), 255, np.uint8)]),
        targets=np.concatenate([batch.targets, np.zeros(3, int)]), weights=np.array([1, 1, 1, 1, 1, 0, 0, 0]))
    plain, with_padding = (model.loss_and_gradients(dense, {}, b) for b in (batch, padded))
    assert plain[0] == with_padding[0] and equal(plain[1], with_padding[1])
    assert model.evaluate(dense, {}, batch) == model.evaluate(dense, {}, padded)


@pytest.mark.parametrize("weights", [None, np.zeros(4)])
def test_a_microbatch_without_examples_adds_zero(weights):
    model = network()
    dense, batch = initial(model), batch_of(0 if weights is None else 4, normaliser=8, weights=weights)
    loss, gradients = model.loss_and_gradients(dense, {}, batch)
    assert loss == 0 and gradients.keys() == dense.keys() and not any(g.any() for g in gradients.values())
    assert all(gradients[v.name].shape == v.shape and gradients[v.name].dtype == v.dtype for v in model.variables)
    assert model.evaluate(dense, {}, batch) == {"loss": 0.0, "count": 0, "correct": 0}


def test_dropout_and_augmentation_depend_on_the_batch_key_and_not_in_evaluation():
    for options, losses in (({"keep": 1.0, "augment": False}, 1), ({"augment": False}, 3), ({"keep": 1.0}, 3)):
        model = network(**options)
        dense, batch = initial(model), batch_of(6)
        batches = [dataclasses.replace(batch, key=key_of(0, key)) for key in range(3)]
        assert len({model.loss_and_gradients(dense, {}, b)[0] for b in batches}) == losses
        assert len({model.evaluate(dense, {}, b)["loss"] for b in batches}) == 1


@pytest.mark.parametrize("sizes, message", [
    ({"image_shape": (8, 8)}, "give it three axes"), ({"image_shape": (8, 0, 1)}, "image_shape must be positive"),
    ({"classes": 0}, "classes must be a positive integer, not 0"), ({"width": 1.5}, "width must be a positive integer"),
    ({"stages": 0}, r"stages must be .*not \(0,\)"), ({"connected": "abc"}, "connected must be"),
    ({"flip": 2}, "flip must be 1"), ({"keep": 0}, "keep=0: a probability above 0"), ({"keep": "x"}, "keep='x'"),
    ({"blocks": 3}, "512 outputs of connected0 in 3 blocks: give a power of two that divides 512: 1, 2, 4"),
    ({"connected": 10**4, "blocks": 32}, "10000 outputs of connected0 in 32 blocks"),
    ({"stages": (1, 1, 1, 1)}, "after 3 stages images are 1 x 1, too small to pool; give at most 3 stages, or images "
     "of 16 x 16"), ({"stages": 10**12}, "that is .* layers; give at most 1000")])
def test_refuses_sizes_that_make_no_network(sizes, message):
    with pytest.raises(ValueError, match=message):
        Vgg(**{"image_shape": (8, 8, 1), "classes": 10, **sizes})


def test_the_true_presets_are_planned_without_their_data(capsys):
    recipe, _ = recipe_of("vgg", {"preset": "vgg16"})
    assert recipe.data == "random-images:224x224x3x1000"
    assert recipe_of("vgg", {"preset": "vgg16", "data": "digits"})[0].data == "digits"
    assert recipe_of("vgg", {"preset": "small"})[0].data == "digits"
    assert main(["plan", "vgg", "--preset", "vgg-a-cifar", "--ranks", "4", "--rate", "1gbit", "--json"]) == 0
    assert '"stage4.conv1.weight"' in capsys.readouterr().out
    model, data, heldout = build(recipe_of("vgg", {"preset": "tiny", "data": "random-images:9x8x2x3"})[0], 0)
    assert (model.image_shape, model.classes) == ((9, 8, 2), 3)
    assert len(data.inputs) == 10_000 and len(heldout.inputs) == 16
    assert main(["plan", "vgg", "--data", "random-images:9x8"]) != 0
    assert "random-images:9x8: give HEIGHTxWIDTHxCHANNELSxCLASSES" in capsys.readouterr().err


@pytest.mark.thorough
def test_learns_digits_in_sixty_steps():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    images = (digits.images[..., None] * 15.9375).astype(np.uint8)
    model = Vgg((8, 8, 1), 10, **PRESETS["small"], augment=False)
    dense, velocity = initial(model), {v.name: 0 for v in model.variables}
    order = np.random.default_rng(0).permutation(len(images))
    train, held_out = order[:1500], order[1500:]
    for step in range(60):
        chosen = train[np.arange(step * 64, (step + 1) * 64) % len(train)]
        batch = Batch(images[chosen], digits.target[chosen], normaliser=64.0, key=key_of(0, step))
        _, gradients = model.loss_and_gradients(dense, {}, batch)
        for name, gradient in gradients.items():
            velocity[name] = np.float32(0.9) * velocity[name] + gradient
            dense[name] = dense[name] - np.float32(0.02) * velocity[name]
    result = model.evaluate(dense, {}, Batch(images[held_out], digits.target[held_out]))
    assert result["count"] == 297 and result["correct"] / 297 > 0.93
