"""The language model's gradients, proved by central differences in float64."""

import numpy as np
import pytest

from models import Batch
from models.gradient_check import GradientError, check_gradients
from models.lm import PRESETS, LanguageModel


def tiny(**changes):
    """Return a tiny float64 model."""
    return LanguageModel(**{**PRESETS["tiny"], "dtype": "float64", **changes})


def window(model, time=5, streams=3, seed=0, padding=False, state=False):
    """Return a batch of random words; with a ragged tail and a hole, and with a random carried state, on request."""
    random = np.random.default_rng(seed)
    inputs, targets = random.integers(0, model.vocabulary, (2, time, streams))
    batch = Batch(inputs, targets, normaliser=7.0, key=seed + 1)
    if padding:
        batch.weights = np.ones((time, streams), np.float32)
        batch.weights[-2:, 0] = 0
        batch.weights[1, 1] = 0
    if state:
        for layer in model.layers:
            batch.state[f"{layer}/c"] = random.normal(size=(streams, model.hidden))
            batch.state[f"{layer}/h"] = random.normal(size=(streams, model.width))
    return batch


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("keep", [1.0, 0.8])
@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.thorough("True-True")
def test_gradients(layers, keep, padding, state):
    model = tiny(layers=layers, keep=keep)
    check_gradients(model, window(model, padding=padding, state=state))


@pytest.mark.parametrize("time, streams", [(1, 1), (1, 4), (7, 1)])
def test_gradients_of_odd_windows(time, streams):
    model = tiny(keep=0.7)
    check_gradients(model, window(model, time, streams))


def test_gradients_without_projection():
    model = tiny(projection=None)
    assert {v.name for v in model.variables} == {"embedding", "lstm0/kernel", "lstm0/bias", "softmax_weight",
                                                 "softmax_bias"}
    check_gradients(model, window(model))


def test_gradients_when_every_word_is_a_candidate():
    model = tiny(vocabulary=16, samples=16)
    check_gradients(model, window(model))


@pytest.mark.parametrize("name", ["embedding", "lstm0/kernel", "lstm0/bias", "lstm0/projection", "softmax_weight",
                                  "softmax_bias"])
def test_a_planted_error_is_named(name):
    class Wrong(LanguageModel):
        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            array = getattr(gradients[name], "rows", gradients[name])
            array *= 1.001
            return loss, gradients

    model = Wrong(**{**PRESETS["tiny"], "dtype": "float64"})
    with pytest.raises(GradientError, match=f"'{name}'"):
        check_gradients(model, window(model))
