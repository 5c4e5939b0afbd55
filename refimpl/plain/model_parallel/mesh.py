"""One step of layers that are cut over groups of ranks, with one method for each decision.

``groups`` shows the same step with its bits and its bytes. Rank r is member r % K of group r // K. The members of a
group work on several microbatches together, so most methods take and return a dict {microbatch number: matrix}.

In float64, with all ranks in one process, the conformance suite computes its expected values with this class. To plant
a known mistake, it replaces one method (``refimpl.conformance.space.mesh``).
"""

import numpy as np

from refimpl.plain.model_parallel.mesh_layers import MeshLayers


class Mesh(MeshLayers):
    """One step of one rank. world: has ``rank`` and ``allgather`` as mpi4py communicators do.

    task: a ``MeshTask`` of the conformance suite: mesh, layers, first values, microbatches, dropout, rate, clip.
    """

    def __init__(self, world, task):
        self.world, (self.groups, self.members), self.loss = world, task.mesh, 0.0
        self.group, member = self.place(world.rank)
        super().__init__(task, member)

    def run(self):
        """Return {name: this rank's part after the step}, and under "loss" the loss."""
        for j in range(self.members):
            self.one_round(j)
        gradients = self.summed(self.gradients)
        scale = 1.0 if self.task.clip is None else min(1.0, self.task.clip / self.norm(gradients))
        loss = sum(self.world.allgather(self.loss)) / self.task.normaliser
        return {**{n: self.values[n] - self.task.rate * scale * g for n, g in gradients.items()}, "loss": loss}

    def place(self, rank):
        """Return (group of a rank, its place in the group)."""
        return divmod(rank, self.members)

    def turn(self, j):
        """Return the numbers of the microbatches that this rank takes in round j, of ``members`` rounds."""
        size = len(self.task.microbatches) // self.members
        return range(self.task.first + j * size, self.task.first + (j + 1) * size)

    def one_round(self, j):
        """Take one or more microbatches of each member forwards and backwards through all layers."""
        own, grads, saved = self.turn(j), {}, {}  # below the cut: this rank's microbatches, all columns
        kept = {v: self.through(self.below, self.task.microbatches[v - self.task.first][0], v) for v in own}
        rows = self.gather_rows({v: x for v, (x, _) in kept.items()})
        for layer in self.cut:  # the microbatches of all members, this member's columns
            done = {v: self.forward(layer, x, v) for v, x in rows.items()}
            saved[layer] = {v: one for v, (_, one) in done.items()}
            rows = self.gather_columns(layer, {v: y for v, (y, _) in done.items()})
        for v in own:  # the layers above the cut, the loss, and back to the cut
            y, above = self.through(self.above, rows[v], v)
            g = self.task.microbatches[v - self.task.first][1]  # the loss is the sum of y * g, so its gradient is g
            self.loss += float((y * g).sum(dtype=np.float64))
            grads[v] = self.back(above, g / self.task.normaliser)
        grads = self.own_columns(self.gather_rows(grads))
        for layer in reversed(self.cut):
            partials = {v: self.backward(layer, one, grads[v]) for v, one in saved[layer].items()}
            grads = self.add_partials(layer, partials)
            grads = self.own_rows(grads, own) if layer is self.cut[0] else self.own_columns(grads)
        self.last(j, [(kept[v][1], grads[v]) for v in own])

    def last(self, j, found):
        """Go backwards through the layers below the cut. found: (what they saved, gradient) of each microbatch."""
        for saved, grad in found:
            self.back(saved, grad)

    def of_group(self, item):
        """Return the list of the group's items, one from each member."""
        return [theirs for rank, theirs in enumerate(self.world.allgather(item)) if self.place(rank)[0] == self.group]

    def gather_rows(self, mine):
        """Return the microbatches of all members."""
        return {v: x for theirs in self.of_group(mine) for v, x in theirs.items()}

    def gather_columns(self, layer, parts):
        """Return the microbatches with the columns of all members."""
        everyone = self.of_group(parts)
        return {v: np.concatenate([everyone[k][v] for k in self.order(layer)], axis=1) for v in parts}

    def order(self, layer):
        """Return the members in the order of their columns."""
        return range(self.members)

    def add_partials(self, layer, partials):
        """Return the gradient of a layer's input: the sum of the partial sums of all members."""
        everyone = self.of_group(partials)
        return {v: sum(theirs[v] for theirs in everyone) for v in partials}

    def own_rows(self, grads, own):
        """Return this rank's microbatches from those of the group."""
        return {v: grads[v] for v in own}

    def own_columns(self, grads):
        """Return this member's columns."""
        return {v: grad[:, self.part(grad.shape[1])] for v, grad in grads.items()}

    def holds(self, name, rank):
        """Return whether ``rank`` has the same part of a variable as this rank. Then their gradients are added up."""
        return not self.is_cut(name) or self.place(rank)[1] == self.member

    def summed(self, gradients):
        """Return {name: gradient of this rank's part}, summed over all ranks that hold the same part."""
        everyone = list(enumerate(self.world.allgather(gradients)))
        return {name: sum(theirs[name] for rank, theirs in everyone if self.holds(name, rank)) for name in gradients}

    def norm(self, gradients):
        """Return the norm of all layers' gradients."""
        return float(np.sqrt(sum(self.squares(*self.own_squares(gradients)))))

    def own_squares(self, gradients):
        """Return (Σ g² of this rank's parts of cut layers, Σ g² of whole layers)."""
        squares = {n: float((g.astype(np.float64)**2).sum()) for n, g in gradients.items()}
        return [sum(x for n, x in squares.items() if self.is_cut(n) is cut) for cut in (True, False)]

    def squares(self, parts, whole):
        """Return (Σ g² of cut layers, Σ g² of whole layers). parts, whole: this rank's. Each element counts once."""
        return sum(self.of_group(parts)), whole
