"""What a step of layers cut over groups should give, in float64; and what it would with a known fault.

Microbatch by microbatch, x being what enters a layer and P[k] member k's partial sum:

    z = x @ W.T + b         y = z * scale           scale = (z > 0) * dropout, 1 of the last layer
    dz = dy * scale         dW = dz.T @ x           P[k] = dz[:, k] @ W[k]          dx = sum over members of P[k]

The gradient of a part is the sum over all microbatches, whoever holds it; an element counts once in the norm.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.conformance.case import Case
from refimpl.conformance.cases.mesh import NORMALISER, RATE, dropout_of, layers_of, part_name, weights_of
from refimpl.conformance.rules.aggregate import Expected


@dataclass(frozen=True)
class Fault:
    """One deviation; kind: see ``space.mesh.WORDS``.  layer: the only one that it hits, "": all.

    turn: by how many members or rounds it is off; 0: in reverse; None, of columns: a member's own come first.
    """

    kind: str = ""
    layer: str = ""
    turn: int | None = 1


class MeshCaseStep:
    """One step of a case, all microbatches' rows under each other. fault: what it does otherwise."""

    def __init__(self, case: Case, fault: Fault = Fault()):
        self.case, self.fault, self.layers = case, fault, layers_of(case)
        self.groups, self.members = case.settings["mesh"]
        self.values = {name: a.astype(np.float64) for name, a in weights_of(case).items()}
        self.dropout = {name: np.concatenate(scales) for name, scales in dropout_of(case).items()}
        self.sizes = [len(x) for parts in case.steps[0] for x in parts["inputs"]]
        self.each = len(case.steps[0][0]["inputs"])
        self.ranks = np.repeat(np.arange(len(self.sizes)) // self.each, self.sizes)
        self.owners = self.ranks % self.members
        self.saved, self.products, self.loss = {}, {}, 0.0

    def has(self, kind, layer=None) -> bool:
        """Return whether this is the fault, in this layer."""
        return self.fault.kind == kind and (layer is None or layer.cut and self.fault.layer in ("", layer.name))

    def run(self) -> dict[str, dict[int, np.ndarray]]:
        """Return name -> rank -> its part after the step, and of ``loss``."""
        grad = self.given("gradients") / NORMALISER
        self.loss = float((self.forward(self.given("inputs")) * grad).sum())
        for number, layer in reversed(list(enumerate(self.layers))):
            below = number > 0 and self.layers[number - 1]
            grad = self.backward(layer, below if below and below.cut else None, grad)
            if layer.cut and not (below and below.cut):
                grad = grad[self.sources()]
        return {**self.updated(), "loss": dict.fromkeys(range(self.case.ranks), np.array(self.loss))}

    def given(self, what):
        """Return all ranks' rows of the inputs, or of the gradients."""
        return np.concatenate([a for parts in self.case.steps[0] for a in parts[what]]).astype(np.float64)

    def parts(self, layer) -> list[slice]:
        """Return the outputs of a layer that each member computes: all, if it is not cut."""
        width = layer.outputs // self.members
        return [slice(k * width, (k + 1) * width) if layer.cut else slice(None) for k in range(self.members)]

    def owned(self, of_each):
        """Return of each row what its owner has. of_each: of each member."""
        return np.stack(of_each)[self.owners, np.arange(len(self.owners))]

    def forward(self, x):
        """Return what leaves the last layer; each member may see other x."""
        seen = [x] * self.members
        for layer in self.layers:
            bias = self.values[layer.bias] * (self.members if self.has("bias-by-every-member", layer) else 1)
            z = [x @ self.values[layer.weight][part].T + bias[part] for x, part in zip(seen, self.parts(layer))]
            z = np.concatenate(z, axis=1) if layer.cut else self.owned(z)
            scale = 1.0 if layer.last else (z > 0) * self.drawn(layer)
            self.saved[layer] = seen, scale
            seen = [self.gathered(layer, z * scale, k) for k in range(self.members)]
        return self.owned(seen)

    def drawn(self, layer):
        """Return what dropout multiplies with."""
        scale = self.dropout.get(layer.name, 1.0)
        if layer.name in self.dropout and self.has("dropout-by-local-column", layer):
            return np.tile(scale[:, self.parts(layer)[0]], self.members)
        return scale

    def gathered(self, layer, y, member):
        """Return the columns as a member sees them."""
        if not self.has("columns-out-of-order", layer):
            return y
        parts, turn, order = np.split(y, self.members, axis=1), self.fault.turn, list(range(self.members))
        order = [member, *(k for k in order if k != member)] if turn is None else turned(order, turn)
        return np.concatenate([parts[k] for k in order], axis=1)

    def backward(self, layer, below, grad):
        """Keep what a layer's gradients are products of; return the gradient of its x. below: if that is cut, too."""
        seen, scale = self.saved[layer]
        dz, parts = grad * scale, self.parts(layer)
        self.products[layer] = [dz[:, part] for part in parts], seen if layer.cut else [self.owned(seen)] * len(parts)
        if not layer.cut:
            return dz @ self.values[layer.weight]
        partial = [dz[:, part] @ self.values[layer.weight][part] for part in parts]
        if not self.has("partial-sums-not-added", layer):
            return sum(partial) * (self.members if below is None and self.has("input-gradient-k-times") else 1)
        if below is None:
            return self.owned(partial)
        return np.concatenate([p[:, part] for p, part in zip(partial, self.parts(below))], axis=1)

    def sources(self):
        """Return the rows whose gradients arrive where each row's should."""
        shape = self.groups, self.members, self.members, -1  # group, member, round, place in the round
        numbers, order = np.arange(len(self.sizes)).reshape(shape), turned(list(range(self.members)), self.fault.turn)
        if self.has("rows-to-wrong-owner"):
            numbers = numbers[:, order]
        if self.has("rounds-out-of-order"):
            numbers = numbers[:, :, order]
        ends = np.cumsum([0, *self.sizes])
        if [self.sizes[v] for v in numbers.ravel()] != self.sizes:
            raise ValueError("rows of microbatches of unlike sizes")
        return np.concatenate([np.arange(ends[v], ends[v + 1]) for v in numbers.ravel()])

    def place(self, rank) -> tuple[int, int]:
        """Return (group, member) of a rank."""
        if self.has("members-far-apart"):
            return rank % self.groups, rank // self.groups
        return divmod(rank, self.members)

    def summed(self, layer, rank):
        """Return a rank's gradients of its part of a layer: name -> array."""
        kind, (group, member) = self.fault.kind, self.place(rank)
        dz, x = self.products[layer]
        rows = slice(None)
        if kind == "parts-not-summed" and layer.cut:
            rows = self.ranks // self.members == group
        if kind == "whole-over-holders" and not layer.cut:
            rows = self.owners == member
        members = range(self.members) if kind == "parts-of-all-members" and layer.cut else [member]
        factor = {"parts-divided": 1 / self.members, "parts-multiplied": self.members}.get(kind, 1) if layer.cut else 1
        return {layer.weight: sum(dz[k][rows].T @ x[k][rows] for k in members) * factor,
                layer.bias: sum(dz[k][rows].sum(axis=0) for k in members) * factor}

    def updated(self):
        """Return name -> rank -> its part after the update."""
        found = {layer: [self.summed(layer, rank) for rank in range(self.case.ranks)] for layer in self.layers}
        result: dict[str, dict] = {}
        for rank in range(self.case.ranks):
            (_, member), scale = self.place(rank), self.scale(found, rank)
            for layer, ranks in found.items():
                for name, gradient in ranks[rank].items():
                    called = part_name(name, rank % self.members) if layer.cut else name
                    value = self.values[name][self.parts(layer)[member]] - RATE * scale * gradient
                    result.setdefault(called, {})[rank] = value
        return result

    def scale(self, found, rank) -> float:
        """Return what a rank's gradient is multiplied with. found: layer -> of each rank name -> gradient."""
        if self.case.settings["clip"] is None:
            return 1.0
        group, squares = self.place(rank)[0], {True: 0.0, False: 0.0}
        others = [r for r in range(self.case.ranks) if self.place(r)[0] == group]
        for layer, ranks in found.items():
            alone = not layer.cut or self.has("norm-of-own-part")
            counted = [rank] if alone else others
            squares[layer.cut] += sum(float((g**2).sum()) for r in counted for g in ranks[r].values())
        k, g = self.members, self.groups
        cut, whole = {"norm-parts-k-times": (k, 1), "norm-parts-g-times": (g, 1), "norm-whole-k-times": (1, k),
                      "norm-every-copy": (g, g * k), "norm-without-parts": (0, 1)}.get(self.fault.kind, (1, 1))
        return min(1.0, self.case.settings["clip"] / np.sqrt(cut * squares[True] + whole * squares[False]))


def turned(order, turn) -> list:
    """Return a list shifted by ``turn``, reversed if that is 0. Local."""
    return order[turn:] + order[:turn] if turn else order[::-1]


def stepped(case: Case, fault: Fault = Fault()) -> list[dict[str, dict[int, Expected]]] | None:
    """Return name -> rank -> what it should have after the step; None if such a fault ends in an error. Local."""
    try:
        found = MeshCaseStep(case, fault).run()
    except ValueError:  # parts of unlike shapes meet
        return None
    start, eps = weights_of(case), float(np.finfo(np.float32).eps)
    result: dict[str, dict] = {}
    for name, ranks in found.items():
        largest = np.abs(start.get(name.partition(" of ")[0], np.zeros(()))).max(initial=0.0)
        for rank, value in ranks.items():
            error = np.zeros_like(value) if case.exact else 48 * eps * (largest + np.abs(value))
            result.setdefault(name, {})[rank] = Expected(value, error, "float64" if name == "loss" else "float32")
    return [result]
