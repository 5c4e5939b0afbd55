"""What models call ready: what they return, the very arrays, untouched since, the last layer's first."""

import numpy as np
import pytest
from image_networks import images
from image_networks import tiny as network
from nmt_batches import sentences
from nmt_batches import tiny as translator

from kernels import RowGradient
from models import Batch
from models.cnn import ConvNet
from models.lm import PRESETS, LanguageModel
from models.vgg import Vgg


class Listener:
    """Notes what has become ready, call by call, with the bits that it had then."""

    def __init__(self):
        self.order, self.arrays, self.bits = [], {}, {}

    def __call__(self, gradients):
        new = [name for name in gradients if name not in self.arrays]
        self.order.append(new)
        for name in new:
            self.arrays[name], self.bits[name] = gradients[name], bits(gradients[name])


def bits(gradient):
    """Return a gradient's bytes."""
    if isinstance(gradient, RowGradient):
        return gradient.ids.tobytes() + gradient.rows.tobytes()
    return np.asarray(gradient).tobytes()


def listened(model, batch):
    """Return (listener, gradients) of one call on initial values."""
    values = {v.name: v.initial_value(1) for v in model.variables}
    needs = model.rows_needed(batch)
    rows = {name: values[name][ids] for name, ids in needs.items()}
    listener = batch.ready = Listener()
    _, gradients = model.loss_and_gradients({n: v for n, v in values.items() if n not in needs}, rows, batch)
    return listener, gradients


def lm(**changes):
    model = LanguageModel(**{**PRESETS["tiny"], **changes})
    return model, Batch(*np.random.default_rng(0).integers(0, model.vocabulary, (2, 5, 3)), key=3)


def cnn():
    return network(ConvNet), images(4)


def vgg():
    return network(Vgg), images(4)


def nmt(layers=2):
    model = translator(layers=layers)
    return model, sentences(model)


@pytest.mark.parametrize("make", [lm, lambda: lm(layers=2), lambda: lm(projection=0), cnn, nmt, vgg])
def test_what_was_ready_is_returned_as_it_was(make):
    listener, gradients = listened(*make())
    assert listener.arrays
    for name, array in listener.arrays.items():
        assert gradients[name] is array and bits(array) == listener.bits[name]


@pytest.mark.parametrize("make", [lambda: lm(layers=3), cnn, nmt, lambda: nmt(layers=4), vgg])
def test_what_is_ready_comes_backward(make):
    """No variable of an earlier call is declared before one of a later call; what is left is declared first of all."""
    model, batch = make()
    listener, gradients = listened(model, batch)
    place = {variable.name: number for number, variable in enumerate(model.variables)}
    calls = [*listener.order, [name for name in gradients if name not in listener.arrays]]
    assert len(calls) > 3 and all(calls)
    for later, earlier in zip(calls, calls[1:]):
        assert min(place[name] for name in later) > max(place[name] for name in earlier)


def test_a_microbatch_of_padding_is_ready_too():
    model, batch = lm()
    batch.weights = np.zeros(batch.inputs.shape)
    listener, gradients = listened(model, batch)
    assert all(gradients[name] is array for name, array in listener.arrays.items())


def test_the_comparison_sees_a_write_after_ready():
    listener, gradients = listened(*lm())
    gradients["lstm0/kernel"][0, 0] += 1
    assert bits(gradients["lstm0/kernel"]) != listener.bits["lstm0/kernel"]
