"""ConvNet: its variables, its statistics, its evaluation, and what it refuses."""

import dataclasses

import numpy as np
import pytest
from image_networks import CLASSES, SHAPE, images, initial, tiny

from kernels.norm import channel_statistics
from models import STATISTIC_RATE, Batch
from models.cnn import PRESETS, ConvNet
from models.vision.convolution import conv_forward
from models.vision.images import normalize_images


@pytest.mark.parametrize("preset, shape", [
    ("small", (8, 8, 1)), ("tiny", (32, 32, 3)), ("tiny", (1, 1, 2)), ("tiny", (9, 6, 2))])
def test_gradients_have_the_variables_shapes_and_dtype(preset, shape):
    model = ConvNet(shape, CLASSES, **PRESETS[preset])
    dense, batch = initial(model), images(3, shape)
    loss, gradients = model.loss_and_gradients(dense, model.rows_needed(batch), batch)
    assert isinstance(loss, float) and 0 < loss < 10
    assert gradients.keys() == dense.keys() and len(dense) == len(model.variables)
    for v in model.variables:
        assert gradients[v.name].shape == v.shape and gradients[v.name].dtype == v.dtype == "float32"
    assert model.evaluate(dense, {}, batch)["count"] == 3


def test_what_decays_and_what_is_a_statistic():
    for v in tiny(ConvNet).variables:
        part = v.name.rsplit(".", 1)[1]
        assert v.decays == (part == "weight") and not v.sparse
        assert v.statistic == (part in ("mean", "variance")) and v.clipped != v.statistic
        first = v.initial_value(0)
        assert np.all(first == {"scale": 1, "variance": 1}.get(part, 0)) or part == "weight" and np.std(first) > 0


def test_initial_weights_have_variance_two_over_fan_in():
    kernel = next(v for v in ConvNet((8, 8, 1), 2, width=32).variables if v.name == "stage1.block0.conv2.weight")
    values = kernel.initial_value(0).astype(np.float64)  # 36,864 uniform draws: 4 standard errors of their variance
    assert abs(values.var() / (2 / (9 * 64)) - 1) < 4 * np.sqrt(0.8 / values.size)


def test_statistics_shares_add_up_to_the_mean_over_the_global_batch():
    model = tiny(ConvNet, augment=False)
    dense = initial(model)
    pieces = [images(n, seed=n, normaliser=8) for n in (1, 5, 2)]
    total = {"mean": 0, "variance": 0}
    expected = {"mean": 0, "variance": 0}
    for piece in pieces:
        _, gradients = model.loss_and_gradients(dense, {}, piece)
        own = channel_statistics(conv_forward(normalize_images(piece.inputs, "float64"), dense, "stem"))
        for part, statistic in zip(total, own, strict=True):
            total[part] = total[part] + gradients[f"stem_norm.{part}"]
            expected[part] = expected[part] + len(piece.inputs) * statistic
    for part in total:
        # each of 3 terms: 2 roundings on either side, then at most 2 additions: gamma(8) of the sizes, rounded up
        assert np.all(np.abs(total[part] - expected[part] / 8) <= 1e-15 * 3 * np.abs(expected[part]).max())


def test_running_statistics_reach_those_of_a_repeated_batch():
    """Training and evaluation then normalise alike, so the losses agree: mean and variance mean what they say."""
    model = tiny(ConvNet, augment=False)
    dense, batch = initial(model), images(6)
    loss, gradients = model.loss_and_gradients(dense, {}, batch)
    for v in model.variables:
        if v.statistic:
            for _ in range(400):  # 0.9 ** 400 < 1e-18
                dense[v.name] = dense[v.name] + STATISTIC_RATE * (gradients[v.name] - dense[v.name])
    # float64 on both sides, 9 layers; a wrong statistic would show at 1e-2
    assert abs(model.evaluate(dense, {}, batch)["loss"] / 6 - loss) < 1e-12


def test_evaluation_of_pieces_adds_up_and_augments_nothing():
    model = tiny(ConvNet)
    dense, batch = initial(model), images(7)
    whole = model.evaluate(dense, {}, batch)
    assert whole == model.evaluate(dense, {}, dataclasses.replace(batch, key=12, normaliser=3.0))
    cuts = [Batch(batch.inputs[cut], batch.targets[cut]) for cut in (slice(3), slice(3, 7))]
    pieces = [model.evaluate(dense, {}, cut) for cut in cuts]
    assert sum(p["count"] for p in pieces) == 7 and sum(p["correct"] for p in pieces) == whole["correct"]
    # BLAS may add in another order for other shapes: float64 rounding, where a lost example would show at 1e-1
    assert abs(sum(p["loss"] for p in pieces) - whole["loss"]) < 1e-12


@pytest.mark.parametrize("batch, message", [
    (images(2, (5, 7, 3)), r"takes \(n, 7, 5, 3\) uint8"),
    (dataclasses.replace(images(2), inputs=np.zeros((2, *SHAPE))), "float64"),
    (dataclasses.replace(images(2), targets=np.array([0, 1, 2])), r"targets \(3,\)"),
    (dataclasses.replace(images(2), targets=np.array([0, CLASSES])), "4 classes, numbered from 0"),
    (dataclasses.replace(images(2), targets=np.array([-1, 0])), "targets from -1"),
])
def test_refuses_a_batch_that_does_not_fit(batch, message):
    model = tiny(ConvNet)
    for use in (model.loss_and_gradients, model.evaluate):
        with pytest.raises(ValueError, match=message):
            use(initial(model), {}, batch)


@pytest.mark.parametrize("sizes, message", [
    ({"blocks": 0}, r"blocks must be .*not \(0,\)"), ({"blocks": "abc"}, "blocks must be"),
    ({"blocks": (1, -1)}, "blocks must be"),
    ({"blocks": 10**12}, "that is 1000000000000 layers; give at most 1000")])
def test_refuses_sizes_that_make_no_network(sizes, message):
    with pytest.raises(ValueError, match=message):
        ConvNet(**{"image_shape": (8, 8, 1), "classes": 10, **sizes})


def test_a_number_of_blocks_is_that_of_one_stage():
    assert ConvNet((8, 8, 1), 10, blocks=2).blocks == ConvNet((8, 8, 1), 10, blocks=(2,)).blocks
