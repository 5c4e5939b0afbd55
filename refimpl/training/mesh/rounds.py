"""Equals plain/model_parallel/groups.py: a step on a mesh, in K rounds at most.

In each round every member contributes equally many microbatches:

    features of round j + 1 ─▶ send their rows ─▶ cut layers of round j, forward and backward ─▶ its features, backward
                               (they travel during the computation of round j)

The unit of computation is a microbatch x a column block on every mesh, so the bits are those of one device. The weight
gradients of cut layers are added in the last round, in the order of the group's microbatches: in one tree, with no more
memory than on one device. They are computed while the gradient of the layer's input travels, and their own exchange
begins before the next layer's is computed (Das et al., arXiv 1602.06709). The rows of one member travel while those of
the next are computed. After each unit, the exchanges under way make progress.
"""

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from kernels.random import key_of
from models.fully_connected import dropout_key, end_of
from models.returned import features_of, gradients_of
from refimpl.plan.activations import examples_in
from refimpl.plan.mesh import cut_of, layers_of
from refimpl.training.checked.model import CheckedModel, HandedOut
from refimpl.training.checked.values import check_number
from refimpl.training.mesh.group import Coming, Group
from refimpl.training.parameters import Parameters
from refimpl.training.step.sequential import ReadyGradients


class Entered(NamedTuple):
    """A round whose rows have been sent to the cut layers.

    mine: microbatch -> (batch, rows of its x, its targets, what its features saved), None if it has no examples.
    coming: the exchange that brings the list of all members' rows.  counts: rows of each member.
    units: (microbatch, its part of the member's rows) of the microbatches of each member.
    """

    mine: dict[int, Any]
    coming: Coming
    counts: list[int]
    units: list[list[tuple[int, slice]]]


class MeshStep:
    """The computation of a step with the members of a group. The constructor is local, the rest collective.

    model: a ``models.protocol.Sharded``.  overlap: whether the exchange of gradients begins before the step's end.
    Raises ValueError if the model is none, or if other layers than its own are cut.
    """

    def __init__(self, model: CheckedModel, parameters: Parameters, seed: int, xp=np, overlap: bool = False):
        plan, comm = parameters.plan, parameters.comm
        self.model, self.seed, self.xp, self.group = model, seed, xp, Group(comm, plan.on_mesh)
        self.exchange_of, self.overlap = parameters.exchange_of, overlap
        weights = [v.name for v in layers_of(cut_of(plan, model.variables))]
        connected = list(getattr(model, "connected", ()))
        self.cut = [layer for layer in connected if layer.names[0] in weights]
        first = connected.index(self.cut[0]) if self.cut else 0
        if len(self.cut) != len(weights) or connected[first:first + len(self.cut)] != self.cut or first:
            raise ValueError(f"the plan cuts {', '.join(weights)} into columns, and the fully connected layers of "
                             f"{model.name} are {', '.join(layer.name for layer in connected) or 'none'}: only "
                             "the first of these can be cut")
        self.rest = connected[len(self.cut):]
        away = [name for layer in self.cut for name in layer.names]
        self.own = {v.name: self.exchange_of[v.name] for v in model.variables if v.name not in away}
        each = plan.microbatches // plan.ranks
        leaves = [range(rank * each, (rank + 1) * each) for rank in self.group.members]
        self.leaves, size = leaves, each // (rounds := plan.on_mesh.rounds(plan.microbatches))
        self.last = leaves[self.group.me][-1]
        self.rounds = [[own[j * size:(j + 1) * size] for own in leaves] for j in range(rounds)]

    def compute(self, number: int, dense, batches: dict) -> list:
        """Return (microbatch, loss) of this rank's microbatches; add all gradients to their exchanges. Collective.

        number: of the step.  dense: name -> value.  batches: microbatch -> its batch, None if it has no examples.
        Raises ValueError, on this rank alone, if the model breaks its protocol.
        """
        self.number, self.dense, losses = number, dense, []
        self.under_way: list = []  # exchanges that overlap: a round's rows, sums of gradients
        self.kept: dict = {layer.name: {} for layer in self.cut}  # -> microbatch -> (input, gradient of z)
        counts = self._count(batches)
        entered = self._send(0, self._features(0, batches, counts), counts)
        for j in range(len(self.rounds)):
            following = self._features(j + 1, batches, counts) if j + 1 < len(self.rounds) else None
            x = self._arrived(entered.coming)
            later = following and self._send(j + 1, following, counts)
            losses += self._round(x, entered, last=j + 1 == len(self.rounds))
            entered = later
        return losses

    def _count(self, batches) -> dict:
        """Return microbatch -> number of examples, for all of the group's microbatches."""
        own = np.array([examples_in(batches[v]) for v in self.leaves[self.group.me]], np.int64)
        boxes = {i: np.empty_like(own) for i in range(self.group.size)}
        boxes[self.group.me] = own
        others = self.group.others
        self.group.comm.exchange([(rank, own, {"": own.size}) for _, rank in others],
                                 [(rank, boxes[i], {"": own.size}) for i, rank in others], "rows", "control")
        return {v: int(n) for i, leaves in enumerate(self.leaves) for v, n in zip(leaves, boxes[i])}

    def _features(self, j, batches, counts) -> dict:
        """Return microbatch -> (batch, x, targets, saved) of this rank's in a round; None if it has no examples."""
        found, weight = {}, self.cut[0].of(self.dense)[0]
        for v in self.rounds[j][self.group.me]:
            found[v] = batch = batches[v]
            if batch is not None:
                x, *others = features_of(self.model.model, self.model.features(self.dense, batch), weight)
                if len(x) != counts[v]:
                    raise ValueError(f"{self.model.name}.features returned {len(x)} rows in microbatch {v}, "
                                     f"of which {counts[v]} examples count: on a mesh it must return a row of each "
                                     "(weights > 0), and no other")
                found[v] = batch, x, *others
                self.group.comm.stay_one()
        return found

    def _send(self, j, found, counts) -> Entered:
        """Begin to gather the rows of a round."""
        layer = self.cut[0]
        weight, _ = layer.names
        x = [part[1] for part in found.values() if part is not None]
        dtype = self.dense[weight].dtype
        x = self.xp.concatenate([self.xp.empty((0, layer.inputs), dtype), *x])
        units = []
        for leaves in self.rounds[j]:
            ends = list(accumulate((counts[v] for v in leaves), initial=0))
            units.append(list(zip(leaves, map(slice, ends, ends[1:]))))
        each = [sum(counts[v] for v in leaves) for leaves in self.rounds[j]]
        mine = {v: part and (part[0], len(part[1]), *part[2:]) for v, part in found.items()}
        return Entered(mine, self._begun(self.group.gather_rows(x, each, weight)), each, units)

    def _round(self, x, entered: Entered, last: bool) -> list:
        """Take a round forwards and backwards through all layers; return its losses. x: all members' rows."""
        x, losses, takers = self._forward(x, entered), [], {}
        grads, end = [x[:0] if self.rest else self.xp.empty((0, x.shape[1]), x.dtype)], 0
        for v, (batch, rows, targets, saved) in ((v, part) for v, part in entered.mine.items() if part is not None):
            take, final = self._taker(v)
            takers[v], batch.ready = (take, final), take
            loss, grad, found = end_of(self.model.model, self.rest, x[end:end + rows], targets, self.dense, batch)
            check_number(f"the loss of microbatch {v}", loss)
            take(found)
            losses.append((v, loss))
            grads.append(grad)
            end += rows
        grad, end = self._backward(self.xp.concatenate(grads), entered, last), 0
        for v, part in entered.mine.items():
            if part is None:
                exchanges = dict.fromkeys(self.own.values())
                for exchange in exchanges:
                    exchange.add(v, None)
                self._begin(v, exchanges)
                continue
            _, rows, _, saved = part
            take, final = takers[v]
            found = gradients_of(self.model.model, self.model.features_backward(
                grad[end:end + rows], saved, self.dense, take))
            final.check(found)
            take(found)
            end += rows
        return losses

    def _forward(self, inputs, entered):
        """Return this member's rows of the output of the cut layers."""
        self.scales = {layer.name: [] for layer in self.cut}
        for layer in self.cut:
            (weight, bias), (name, _), coming = layer.of(self.dense), layer.names, []
            first = self.group.me * layer.blocks // self.group.size
            for member, (x, units) in enumerate(zip(inputs, entered.units)):
                y = self.xp.empty((len(x), len(bias)), x.dtype)
                scale = self.xp.empty_like(y) if not layer.last else 1
                for v, rows in units:
                    self.kept[layer.name][v] = x[rows]
                    key = dropout_key(key_of(self.seed, "microbatch", self.number, v), layer)
                    y[rows], found = layer.forward(x[rows], weight, bias, first, key)
                    if not layer.last:
                        scale[rows] = found
                    self.advance()
                self.scales[layer.name].append(scale)
                coming.append(self._begun(self.group.own_rows(y, member, name) if layer is self.cut[-1]
                                          else self.group.gather_columns(y, name)))
            inputs = map(self._arrived, coming)
        return list(inputs)[self.group.me]

    def _backward(self, grad, entered, last):
        """Return the gradient of this member's rows of the first cut layer's input."""
        grads = self.group.wait(self.group.own_columns(grad, entered.counts, self.cut[-1].names[0]))
        for layer in reversed(self.cut):
            (weight, _), above, coming = layer.of(self.dense), self.cut[self.cut.index(layer) - 1], []
            for member, (grad, scale, units) in enumerate(zip(grads, self.scales[layer.name], entered.units)):
                grad = grad * scale
                partial = self.xp.empty((len(grad), layer.inputs), grad.dtype)
                for v, rows in units:
                    self.kept[layer.name][v] = self.kept[layer.name][v], grad[rows]
                    partial[rows] = layer.input_gradient(grad[rows], weight)
                    self.advance()
                coming.append(self._begun(self.group.add_rows(partial, member, layer.names[0]) if layer is self.cut[0]
                                          else self.group.add_columns(partial, above.names[0])))
            if last:
                self._add_weights(layer)
            grads = map(self._arrived, coming)
        return list(grads)[self.group.me]

    def _add_weights(self, layer):
        """Add the weight gradients of the group's microbatches, in their order; drop the arrays that they needed."""
        kept, exchanges = self.kept.pop(layer.name), dict.fromkeys(self.exchange_of[name] for name in layer.names)
        parts = {v.name: exchange.part(v) for exchange in exchanges for v in exchange.variables}
        for v in sorted(kept):
            x, grad = kept.pop(v)
            gradients = dict(zip(layer.names, layer.weight_gradients(grad, x)))
            self.model.check_gradients(gradients, v, parts, {})
            for exchange in exchanges:
                exchange.add(v, gradients)
            self.advance()
        self._begin(self.last, [self.exchange_of[layer.names[0]]])

    def _taker(self, v):
        """Return (function for gradients of a microbatch that are ready, in layers that are not cut; the checked ones).

        Its calls are collective over the ranks of the exchanges.
        """
        final, gradients = HandedOut(v, self.model.first), ReadyGradients(self.own)

        def take(ready):
            new = final.take(ready, self.own)
            self.model.check_gradients(new, v, self.model.by_name, {})
            full = gradients.take(new)
            for exchange, its_own in full.items():
                exchange.add(v, its_own)
            self._begin(v, full)
            self.advance()

        return take, final

    def _begin(self, v, exchanges):
        """Begin the sums that are complete, if v is the last microbatch and sums may overlap. Collective."""
        for exchange in exchanges if self.overlap and v == self.last else ():
            exchange.begin()
            self.under_way.append(exchange)

    def _begun(self, coming: Coming) -> Coming:
        self.under_way.append(coming.messages)
        return coming

    def _arrived(self, coming: Coming):
        """Return the result of an exchange. Collective over the group."""
        found = self.group.wait(coming)
        self.under_way.remove(coming.messages)
        return found

    def advance(self):
        """Let the exchanges under way make progress. Local."""
        for one in self.under_way:
            one.advance()
