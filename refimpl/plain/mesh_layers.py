"""What one member of a group computes by itself in a step of ``mesh``: its columns of fully connected layers.

Microbatch by microbatch, x being what enters a layer and P[k] member k's partial sum:

    z = x @ W.T + b         y = z * scale           scale = (z > 0) * dropout, 1 of the last layer
    dz = dy * scale         dW = dz.T @ x           P[k] = dz[:, k] @ W[k]          dx = sum over members of P[k]
"""

from collections import Counter

import numpy as np


class MeshLayers:
    """A member's part of layers. task: has mesh, layers, start, dropout.  gradients: name -> sum so far."""

    def __init__(self, task, member):
        self.task, self.members, self.member = task, task.mesh[1], member
        self.values = {name: task.start[name][self.part(layer.outputs)] if layer.cut else task.start[name]
                       for layer in task.layers for name in (layer.weight, layer.bias)}
        cut = [number for number, layer in enumerate(task.layers) if layer.cut]
        self.below, self.cut, self.above = (task.layers[:cut[0]], task.layers[cut[0]:cut[-1] + 1],
                                            task.layers[cut[-1] + 1:])
        self.gradients = Counter()

    def part(self, width):
        """Return this member's part of so many columns."""
        each = width // self.members
        return slice(self.member * each, (self.member + 1) * each)

    def through(self, layers, x, v):
        """Return (y, saved) of whole layers."""
        saved = []
        for layer in layers:
            x, one = self.forward(layer, x, v)
            saved.append((layer, one))
        return x, saved

    def back(self, saved, grad):
        """Return the gradient of what entered whole layers."""
        for layer, one in reversed(saved):
            grad = self.backward(layer, one, grad)
        return grad

    def forward(self, layer, x, v):
        """Return (y, (x, scale)) of this rank's part of a layer."""
        z = x @ self.values[layer.weight].T + self.bias(layer)
        scale = np.ones_like(z) if layer.last else (z > 0).astype(z.dtype)
        if layer.name in self.task.dropout:
            scale *= self.drawn(layer, self.task.dropout[layer.name][v])
        return z * scale, (x, scale)

    def bias(self, layer):
        """Return what is added to the products."""
        return self.values[layer.bias]

    def drawn(self, layer, dropout):
        """Return dropout of this member's columns."""
        return dropout[:, self.part(dropout.shape[1])]

    def backward(self, layer, saved, grad):
        """Add up a layer's gradients; return this rank's partial sum of the gradient of x."""
        x, scale = saved
        grad = grad * scale
        self.gradients[layer.weight] = self.gradients[layer.weight] + grad.T @ x
        self.gradients[layer.bias] = self.gradients[layer.bias] + grad.sum(axis=0)
        return grad @ self.values[layer.weight]

    def is_cut(self, name):
        """Return whether this rank has a part of a variable only."""
        return name.rpartition(".")[0] in {layer.name for layer in self.cut}
