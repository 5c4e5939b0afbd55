"""Networks and data of the measurements, from plain JSON; which ranks take turns at, and for how long."""

from functools import cache

import numpy as np

from models.data import Examples
from models.perceptron import Perceptron
from models.vgg import Vgg
from refimpl.experiments.mesh.ranks.replay import ReplayedVgg
from refimpl.training.options import Options

OPTIONS = {"optimizer": "momentum", "learning_rate": 1e-4, "architecture": "allreduce", "allreduce": "halving-doubling"}
"""Small steps: nothing is to be learnt from random examples. The schedule with the exact bytes of the formula."""

NETS = {"perceptron": Perceptron, "vgg": Vgg, "replay": ReplayedVgg}


def make_net(net: dict):
    """Return a network. net: its ``kind``, and what that is made with. Local."""
    return NETS[net["kind"]](**{name: value for name, value in net.items() if name != "kind"})


def make_data(net: dict, microbatches: int, size: int):
    """Return data of one step over and over: random examples, the same on every rank. Local."""
    inputs, targets = _drawn(net["kind"], *_shapes(net))
    count = microbatches * size
    if count > len(inputs):
        raise ValueError(f"{microbatches} microbatches of {size} are {count} examples, at most {len(inputs)}")
    return Examples(inputs[:count], targets[:count], microbatches, size, shuffle=False)


def options_of(mesh: str, **changes) -> Options:
    """Return the options of a training on a mesh. Local."""
    return Options(**{**OPTIONS, "mesh": mesh, "steps": 10**6, **changes})


def _shapes(net):
    if net["kind"] != "perceptron":
        return tuple(net["image_shape"]), net["classes"]
    return (net["inputs"],), net["outputs"]


MOST = 2**25
"""Bytes of all examples, about."""


@cache
def _drawn(kind, shape, outputs):
    rng, itemsize = np.random.default_rng(5), 1 if kind != "perceptron" else 4
    count = min(4096, MOST // (itemsize * int(np.prod(shape))))
    if kind != "perceptron":
        return rng.integers(0, 256, (count, *shape), np.uint8), rng.integers(0, outputs, count)
    return rng.standard_normal((count, *shape), np.float32), rng.standard_normal((count, outputs), np.float32)

