"""The part of a step of ``mesh`` that a member of a group computes by itself: its columns of fully connected layers.

For each microbatch, where x is the input of a layer and P[k] the partial sum of member k:

    z = x @ W.T + b         y = z * scale           scale = (z > 0) * dropout, or 1 in the last layer
    dz = dy * scale         dW = dz.T @ x           P[k] = dz[:, k] @ W[k]          dx = sum over members of P[k]
"""

from collections import Counter

import numpy as np


class MeshLayers:
    """A member's part of the layers. task: see ``mesh.Mesh``.  gradients: {name: sum over microbatches so far}."""

    def __init__(self, task, member):
        self.task, self.members, self.member = task, task.mesh[1], member
        self.values = {name: task.start[name][self.part(layer.outputs)] if layer.cut else task.start[name]
                       for layer in task.layers for name in (layer.weight, layer.bias)}
        cut = [number for number, layer in enumerate(task.layers) if layer.cut]
        first, last = cut[0], cut[-1]
        self.below, self.cut, self.above = task.layers[:first], task.layers[first:last + 1], task.layers[last + 1:]
        self.gradients = Counter()  # a name that it does not have yet counts as 0

    def part(self, width):
        """Return this member's part of ``width`` columns, as a slice."""
        each = width // self.members
        return slice(self.member * each, (self.member + 1) * each)

    def through(self, layers, x, v):
        """Return (y, saved) after layers that are not cut."""
        saved = []
        for layer in layers:
            x, one = self.forward(layer, x, v)
            saved.append((layer, one))
        return x, saved

    def back(self, saved, grad):
        """Return the gradient of the input of layers that are not cut."""
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
        """Return the bias that is added to this member's products."""
        return self.values[layer.bias]

    def drawn(self, layer, dropout):
        """Return the dropout factors of this member's columns."""
        return dropout[:, self.part(dropout.shape[1])]

    def backward(self, layer, saved, grad):
        """Add a microbatch to the layer's gradients; return this rank's partial sum of the gradient of x."""
        x, scale = saved
        grad = grad * scale
        self.gradients[layer.weight] = self.gradients[layer.weight] + grad.T @ x
        self.gradients[layer.bias] = self.gradients[layer.bias] + grad.sum(axis=0)
        return grad @ self.values[layer.weight]

    def is_cut(self, name):
        """Return whether this rank has only a part of a variable."""
        return name.rpartition(".")[0] in {layer.name for layer in self.cut}
