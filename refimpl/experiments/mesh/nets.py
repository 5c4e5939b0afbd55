"""The networks that are measured. One of them only sleeps as long as its layers compute; it can be cut.

Eight ranks on two cores cannot compute at once, but they can move the bytes of eight machines. A part of a layer takes
the same part of its time. Values and gradients are constants; the trainer handles them like any others.
"""

import time
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from kernels.random import key_of
from models import Batch
from models.fully_connected import FullyConnected
from models.perceptron import Perceptron
from models.vgg import Vgg
from refimpl.experiments.replay import constant

ROUNDS = 3
FEATURES = "features"


def make_net(net: dict):
    """Return a network. net: its ``kind``, and that kind's arguments. Local."""
    kind = {"perceptron": Perceptron, "vgg": Vgg, "replay": ReplayedVgg}[net["kind"]]
    return kind(**{name: value for name, value in net.items() if name != "kind"})


def measure_seconds(net: dict, size: int) -> dict:
    """Return name -> processor seconds of a microbatch of ``size``, alone: [forward, backward] of the features, and
    [forward, weight's gradient, input's gradient] of each connected layer. Local."""
    model, rng = Vgg(**net), np.random.default_rng(1)
    dense = {v.name: v.initial_value(0) for v in model.variables}
    batch = Batch(rng.integers(0, 256, (size, *model.image_shape), np.uint8), rng.integers(0, model.classes, size),
                  normaliser=float(size), key=key_of(0, "replay"))
    with threadpool_limits(1):
        rounds = [_once(model, dense, batch) for _ in range(ROUNDS + 1)][1:]  # the first only fills caches
    return {name: [min(took) for took in zip(*(found[name] for found in rounds))] for name in rounds[0]}


def _once(model, dense, batch) -> dict:
    found = {}

    def timed(name, function, *arguments):
        begin = time.thread_time()
        result = function(*arguments)
        found.setdefault(name, []).append(time.thread_time() - begin)
        return result

    x, _, saved = timed(FEATURES, model.features, dense, batch)
    timed(FEATURES, model.features_backward, np.ones_like(x), saved, dense, batch.ready)
    for layer in model.connected:
        weight, bias = layer.of(dense)
        y, _ = timed(layer.name, layer.forward, x, weight, bias, 0, 1)
        timed(layer.name, layer.weight_gradients, np.ones_like(y), x)
        timed(layer.name, layer.input_gradient, np.ones_like(y), weight)
        x = y
    return found


@dataclass(frozen=True)
class ReplayedLayer(FullyConnected):
    """A fully connected layer that sleeps. seconds: of a microbatch of the whole layer, see ``measure_seconds``."""

    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def forward(self, x, weight, bias, first, key):
        self._sleep(0, len(bias))
        y = np.ones((len(x), len(bias)), x.dtype)
        return y, 1 if self.last else y

    def weight_gradients(self, grad, x):
        rows = grad.shape[1]
        self._sleep(1, rows)
        return constant((rows, self.inputs), grad.dtype), constant((rows,), grad.dtype)

    def input_gradient(self, grad, weight):
        self._sleep(2, len(weight))
        return constant((len(grad), self.inputs), grad.dtype)

    def _sleep(self, which, rows):
        time.sleep(self.seconds[which] * rows / self.outputs)


class ReplayedVgg(Vgg):
    """The network that sleeps. seconds: see ``measure_seconds``.  slowdown: seconds of replay for each of these."""

    def __init__(self, seconds: dict, slowdown: float = 1.0, **net):
        super().__init__(**net)
        self.seconds = {name: tuple(slowdown * one for one in some) for name, some in seconds.items()}
        self.connected = [ReplayedLayer(**vars(layer), seconds=self.seconds[layer.name]) for layer in self.connected]
        away = {name for layer in self.connected for name in layer.names}
        self.own = [v for v in self.variables if v.name not in away]

    def features(self, dense, batch):
        time.sleep(self.seconds[FEATURES][0])
        return np.ones((len(batch.inputs), self.connected[0].inputs), self.dtype), batch.targets, None

    def features_backward(self, grad, saved, dense, ready):
        time.sleep(self.seconds[FEATURES][1])
        return {v.name: constant(v.shape, v.dtype) for v in self.own}
