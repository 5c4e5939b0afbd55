"""Fully connected layers in column blocks. The unit of computation is one block for one microbatch.

    Z[:, b] = X @ W[b].T + c[b]    Y = dropout(relu(Z))    dW[b] = dZ[:, b].T @ X    dX = sum over b of dZ[:, b] @ W[b]

A weight is (outputs, inputs), as in PyTorch. Block b of S is outputs [b F / S, (b + 1) F / S), contiguous rows of W.
The sum over blocks is a balanced binary tree. A rank with F / K neighbouring outputs computes one partial sum of this
tree, so any K that divides S gives the same bits (docs/design.md, I1). Dropout is drawn by global column.
"""

import math
from dataclasses import dataclass

from kernels.arrays import array_module
from kernels.random import dropout_scale, key_of
from models.layer import Layer
from models.returned import features_of, gradients_of, loss_of
from models.variable import Uniform, Variable, check_blocks


@dataclass(frozen=True)
class FullyConnected:
    """A fully connected layer, followed by relu and dropout unless it is the last one.

    blocks: S, a power of two that divides ``outputs``.  keep: probability with which an output is kept.
    """

    name: str
    inputs: int
    outputs: int
    blocks: int = 1
    last: bool = False
    keep: float = 1.0

    def __post_init__(self):
        check_blocks(f"outputs of {self.name}", self.outputs, self.blocks)

    @property
    def width(self) -> int:
        """The number of outputs of a block."""
        return self.outputs // self.blocks

    @property
    def layer(self) -> Layer:
        """The layer's sizes, for a plan."""
        return Layer(self.name, self.inputs, self.outputs, blocks=self.blocks)

    @property
    def names(self) -> tuple[str, str]:
        """The names of its weight and its bias."""
        return f"{self.name}.weight", f"{self.name}.bias"

    def variables(self, dtype) -> list[Variable]:
        """Return weight (outputs, inputs), initial variance 2 / inputs (1 / (3 inputs) of the last), and bias, zero."""
        limit = math.sqrt((1 if self.last else 6) / self.inputs)
        kind = {"dtype": dtype, "blocks": self.blocks}
        weight, bias = self.names
        return [Variable(weight, (self.outputs, self.inputs), initial=Uniform(limit), **kind),
                Variable(bias, (self.outputs,), decays=False, **kind)]

    def of(self, dense):
        """Return (weight, bias) of the layer, from name -> value. Local."""
        weight, bias = self.names
        return dense[weight], dense[bias]

    def forward(self, x, weight, bias, first: int, key: int):
        """Return (y, scale) of m blocks, ``first`` and the next ones, of this weight and bias. Local.

        x: (n, inputs).  weight: (m * width, inputs).  bias: (m * width,).  y: (n, m * width).
        scale: gradient of z = scale * gradient of y, for relu and dropout; 1 in the last layer.
        key: the random key of the microbatch's dropout in this layer.
        """
        xp, rows = array_module(x), len(weight)
        y = xp.empty((len(x), rows), x.dtype)
        for start in range(0, rows, self.width):
            block = slice(start, start + self.width)
            y[:, block] = x @ weight[block].T
        y += bias
        if self.last:
            return y, 1
        scale = (y > 0).astype(y.dtype)
        if self.keep < 1:
            scale *= dropout_scale(key, y.shape, self.keep, y.dtype, xp, first * self.width, self.outputs)
        return y * scale, scale

    def weight_gradients(self, grad, x):
        """Return the gradients of the weight and the bias of m blocks. grad: of z, (n, m * width). Local."""
        xp, rows = array_module(grad), grad.shape[1]
        weight, bias = xp.empty((rows, self.inputs), grad.dtype), xp.empty(rows, grad.dtype)
        for start in range(0, rows, self.width):
            block = slice(start, start + self.width)
            of_block = xp.ascontiguousarray(grad[:, block])
            weight[block], bias[block] = of_block.T @ x, of_block.sum(axis=0)
        return weight, bias

    def input_gradient(self, grad, weight):
        """Return the sum over m blocks of grad[:, b] @ weight[b], in tree order: (n, inputs). Local.

        grad: of z, (n, m * width).  weight: (m * width, inputs); m a power of two.
        """
        xp = array_module(grad)
        return tree_sum([xp.ascontiguousarray(grad[:, start:start + self.width]) @ weight[start:start + self.width]
                         for start in range(0, len(weight), self.width)])


def tree_sum(parts: list):
    """Return the sum of 2**k arrays, added up as a balanced binary tree of neighbours. Local."""
    while len(parts) > 1:
        parts = [left + right for left, right in zip(parts[::2], parts[1::2])]
    return parts[0]


def loss_and_gradients(model, dense, batch):
    """Return (loss, gradients) of a microbatch of a model that is ``models.protocol.Sharded``. Local.

    Raises ValueError if a part of the model returns something invalid.
    """
    x, targets, saved = features_of(model, model.features(dense, batch), model.connected[0].of(dense)[0])
    loss, grad, gradients = end_of(model, model.connected, x, targets, dense, batch)
    return loss, gradients | gradients_of(model, model.features_backward(grad, saved, dense, batch.ready))


def end_of(model, layers, x, targets, dense, batch):
    """Return (loss, gradient of x, gradients) of the network's last ``layers`` for their input x (n, inputs). Local.

    Each weight's gradient is ready before the gradient of the layer's input is computed.
    """
    inputs, scales, gradients = [], [], {}
    for layer in layers:
        inputs.append(x)
        x, scale = layer.forward(x, *layer.of(dense), 0, dropout_key(batch.key, layer))
        scales.append(scale)
    loss, grad = loss_of(model, model.loss(x, targets, batch.normaliser), x)
    for layer, x, scale in zip(reversed(layers), reversed(inputs), reversed(scales)):
        grad = grad * scale
        gradients |= zip(layer.names, layer.weight_gradients(grad, x))
        batch.ready(gradients)
        grad = layer.input_gradient(grad, layer.of(dense)[0])
    return loss, grad, gradients


def dropout_key(key: int, layer: FullyConnected) -> int:
    """Return the key of dropout in a layer. key: of the microbatch. Local."""
    return key_of(key, "dropout", layer.name)
