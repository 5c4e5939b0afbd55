"""Layers cut over groups of ranks, of the reference adapter: plain, in rounds. Each of its decisions is a method.

What a group shares is a dict, microbatch number -> matrix, of all microbatches of the round.
"""

from collections import Counter

import numpy as np


class ReferenceMesh:
    """One step of one rank. world: has rank and allgather.  task: a ``MeshTask``."""

    def __init__(self, world, task):
        self.world, self.task = world, task
        self.groups, self.members = task.mesh
        self.group, self.member = divmod(world.rank, self.members)
        self.values = {}
        for layer in task.layers:
            for name in (layer.weight, layer.bias):
                self.values[name] = task.start[name][self.part(layer.outputs)] if layer.cut else task.start[name]
        cut = [number for number, layer in enumerate(task.layers) if layer.cut]
        self.below, self.cut, self.above = (task.layers[:cut[0]], task.layers[cut[0]:cut[-1] + 1],
                                            task.layers[cut[-1] + 1:])
        self.gradients, self.loss = Counter(), 0.0

    def run(self) -> dict:
        """Return name -> this rank's part after the step, and the loss."""
        for j in range(self.members):
            self.one_round(j)
        gradients = self.summed(self.gradients)
        scale = np.float32(1.0 if self.task.clip is None else min(1.0, self.task.clip / self.norm(gradients)))
        rate = np.float32(self.task.rate)
        loss = sum(self.world.allgather(self.loss)) / self.task.normaliser
        return {**{n: self.values[n] - rate * scale * g for n, g in gradients.items()}, "loss": loss}

    def part(self, width) -> slice:
        """Return this member's part of so many columns."""
        each = width // self.members
        return slice(self.member * each, (self.member + 1) * each)

    def turn(self, j) -> range:
        """Return the numbers of this rank's microbatches of a round."""
        size = len(self.task.microbatches) // self.members
        first = self.task.first + j * size
        return range(first, first + size)

    def one_round(self, j):
        """Take a microbatch or more of each member through all layers and back."""
        own, grads, kept, saved = self.turn(j), {}, {}, {}
        for v in own:
            kept[v] = self.through(self.below, self.task.microbatches[v - self.task.first][0], v)
        rows = self.gather_rows({v: x for v, (x, _) in kept.items()})
        for layer in self.cut:
            done = {v: self.forward(layer, x, v) for v, x in rows.items()}
            saved[layer] = {v: one for v, (_, one) in done.items()}
            rows = self.gather_columns({v: y for v, (y, _) in done.items()})
        for v in own:
            y, above = self.through(self.above, rows[v], v)
            g = self.task.microbatches[v - self.task.first][1]
            self.loss += float((y * g).sum(dtype=np.float64))
            grads[v] = self.back(above, g / np.float32(self.task.normaliser))
        grads = self.own_columns(self.gather_rows(grads))
        for layer in reversed(self.cut):
            partials = {v: self.backward(layer, one, grads[v]) for v, one in saved[layer].items()}
            grads = self.add_partials(partials)
            grads = self.own_rows(grads, own) if layer is self.cut[0] else self.own_columns(grads)
        self.last(j, [(kept[v][1], grads[v]) for v in own])

    def last(self, j, found):
        """Take a round back through the layers below. found: (what they kept, gradient) of each microbatch."""
        for saved, grad in found:
            self.back(saved, grad)

    def of_group(self, item) -> list:
        """Return the item of each member."""
        first = self.group * self.members
        return self.world.allgather(item)[first:first + self.members]

    def gather_rows(self, mine) -> dict:
        """Return everybody's microbatches."""
        return {v: x for theirs in self.of_group(mine) for v, x in theirs.items()}

    def gather_columns(self, parts) -> dict:
        """Return the microbatches with everybody's columns."""
        everyone = self.of_group(parts)
        return {v: np.concatenate([everyone[k][v] for k in self.order()], axis=1) for v in parts}

    def order(self):
        """Return the members in the order of their columns."""
        return range(self.members)

    def add_partials(self, partials) -> dict:
        """Return the sum of everybody's partial sums."""
        everyone = self.of_group(partials)
        return {v: sum(theirs[v] for theirs in everyone) for v in partials}

    def own_rows(self, grads, own) -> dict:
        """Return this rank's microbatches."""
        return {v: grads[v] for v in own}

    def own_columns(self, grads) -> dict:
        """Return this member's columns."""
        return {v: grad[:, self.part(grad.shape[1])] for v, grad in grads.items()}

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
            scale *= self.drawn(self.task.dropout[layer.name][v])
        return z * scale, (x, scale)

    def bias(self, layer):
        """Return what is added to the products."""
        return self.values[layer.bias]

    def drawn(self, dropout):
        """Return dropout of this member's columns."""
        return dropout[:, self.part(dropout.shape[1])]

    def backward(self, layer, saved, grad):
        """Add up a layer's gradients; return this rank's partial sum of the gradient of x."""
        x, scale = saved
        grad = grad * scale
        self.gradients[layer.weight] = self.gradients[layer.weight] + grad.T @ x
        self.gradients[layer.bias] = self.gradients[layer.bias] + grad.sum(axis=0)
        return grad @ self.values[layer.weight]

    def is_cut(self, name) -> bool:
        """Return whether this rank has a part of a variable only."""
        return name.rpartition(".")[0] in {layer.name for layer in self.cut}

    def holders(self, name) -> slice:
        """Return the ranks whose gradients of a variable are added up."""
        return slice(self.member, None, self.members) if self.is_cut(name) else slice(None)

    def summed(self, gradients) -> dict:
        """Return name -> gradient of this rank's part."""
        everyone = self.world.allgather(gradients)
        return {name: sum(theirs[name] for theirs in everyone[self.holders(name)]) for name in gradients}

    def norm(self, gradients) -> float:
        """Return the norm of all layers' gradients."""
        return float(np.sqrt(sum(self.squares(gradients))))

    def squares(self, gradients) -> tuple[float, float]:
        """Return the squares of what is cut and of what is whole: each element once."""
        cut, whole = self.own_squares(gradients)
        return self.of_all_parts(cut), whole

    def own_squares(self, gradients) -> tuple[float, float]:
        """Return the squares of this rank's parts, and of what is whole."""
        squares = {n: float((g.astype(np.float64)**2).sum()) for n, g in gradients.items()}
        return tuple(sum(x for n, x in squares.items() if self.is_cut(n) is cut) for cut in (True, False))

    def of_all_parts(self, squares) -> float:
        """Return the squares of all members' parts."""
        return sum(self.of_group(squares))
