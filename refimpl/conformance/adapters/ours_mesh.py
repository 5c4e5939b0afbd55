"""Our trainer on layers that groups share: a model with a case's layers, data with its microbatches."""

import math
from dataclasses import dataclass, field

import numpy as np

from kernels.random import key_of
from models import Variable
from models.fully_connected import FullyConnected, dropout_key, loss_and_gradients
from refimpl.conformance.adapters.ours_training import GivenData
from refimpl.conformance.traces.record import Given
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer


@dataclass(frozen=True)
class GivenDropout(FullyConnected):
    """A layer whose dropout is not drawn but looked up by the key it would be drawn with: key -> (n, outputs)."""

    given: dict = field(default_factory=dict, compare=False)

    def forward(self, x, weight, bias, first, key):
        y, scale = super().forward(x, weight, bias, first, key)
        if key not in self.given:
            return y, scale
        drawn = self.given[key][:, first * self.width:first * self.width + len(weight)]
        return y * drawn, scale * drawn


class GivenLayers:
    """A ``models.protocol.Sharded`` of a task's layers. blocks: most column blocks of those that are cut."""

    def __init__(self, task, blocks: int):
        cut = next(number for number, layer in enumerate(task.layers) if layer.cut)
        made = [GivenDropout(layer.name, layer.inputs, layer.outputs,
                             math.gcd(blocks, layer.outputs) if layer.cut else 1, layer.last)
                for layer in task.layers]
        for layer in made:
            for v, scale in enumerate(task.dropout.get(layer.name, ())):
                layer.given[dropout_key(key_of(0, "microbatch", 0, v), layer)] = scale
        self.below, self.connected = made[:cut], made[cut:]
        self.layers = [layer.layer for layer in made]
        self.variables = [Variable(v.name, v.shape, False, Given.of(task.start[v.name]), blocks=v.blocks)
                          for layer in made for v in layer.variables("float32")]

    def rows_needed(self, batch):
        return {}

    def loss_and_gradients(self, dense, rows, batch):
        return loss_and_gradients(self, dense, batch)

    def features(self, dense, batch):
        x, saved = batch.inputs, []
        for layer in self.below:
            y, scale = layer.forward(x, *layer.of(dense), 0, 0)
            saved.append((layer, x, scale))
            x = y
        return x, batch.targets[0], saved

    def features_backward(self, grad, saved, dense, ready):
        gradients = {}
        for layer, x, scale in reversed(saved):
            grad = grad * scale
            gradients |= zip(layer.names, layer.weight_gradients(grad, x))
            grad = layer.input_gradient(grad, layer.of(dense)[0])
        return gradients

    def loss(self, logits, targets, normaliser):
        """Return (sum of y * g / normaliser, g / normaliser)."""
        return float((logits * targets).sum(dtype=np.float64)) / normaliser, targets / np.float32(normaliser)


class MeshAdapter:
    """The function of stage mesh. ``comm`` and ``settings`` are the subclass's."""

    blocks = 4

    def mesh_step(self, task) -> dict:
        """Train one step with sgd; return name -> this rank's part, and the loss."""
        options = Options(optimizer="sgd", learning_rate=task.rate, clip_norm=task.clip, steps=1,
                          mesh="x".join(map(str, task.mesh)), **self.settings)
        mine = {task.first + i: (x, (g,)) if len(x) else None for i, (x, g) in enumerate(task.microbatches)}
        data = GivenData([mine], self.comm.size * len(task.microbatches), task.normaliser)
        trainer = Trainer.open(GivenLayers(task, self.blocks), data, options, self.comm)
        result = {"loss": trainer.train_step()["loss"]}
        cut = {name for layer in task.layers if layer.cut for name in (layer.weight, layer.bias)}
        for name, whole in task.start.items():
            if task.mesh[1] > 1 and name in cut:
                part = np.array(trainer.parameters.exchange_of[name].shards[name].values)
                result[name] = part.reshape(-1, *whole.shape[1:])
            else:
                result[name] = np.array(trainer.parameters.collect(name, everyone=True))
        return result
