"""Whatever reaches a module's own parameters reaches the values of the step: held to a plain loop of PyTorch's.

Or it is refused: of a table only the rows are here that its layers look up.
"""

import numpy as np
import pytest
import torch
from plain_loop import hold_to_plain_loop, losses_of, plain_losses
from toy_modules import BAGS, ROWS, WIDTH, data_of, squared
from torch import nn
from torch.utils.checkpoint import checkpoint

from refimpl.torch import TorchModel
from refimpl.transport import CollectiveError

DOUBLE = {"dtype": torch.float64}


class Network(nn.Module):
    """Two tables and a network of a part that is called twice, whose parameters something else refers to, too."""

    def __init__(self):
        super().__init__()
        self.items, self.tags = nn.Embedding(ROWS, WIDTH, **DOUBLE), nn.EmbeddingBag(BAGS, WIDTH, mode="sum", **DOUBLE)
        self.hidden, self.shared = nn.Linear(2 * WIDTH + 2, 6, **DOUBLE), nn.Linear(6, 6, **DOUBLE)
        self.out = nn.Linear(6, 1, **DOUBLE)

    def looked_up(self, ids, bags):
        return torch.cat([self.items(ids), self.tags(bags)], 1)

    def body(self, x):
        return torch.tanh(self.shared(torch.tanh(self.hidden(x))))

    def forward(self, inputs):
        ids, bags, numbers = inputs
        x = torch.cat([self.looked_up(ids, bags), numbers], 1)
        return self.out(torch.tanh(self.shared(self.body(x)))).squeeze(1)


class Checkpointed(Network):
    """Its body is computed again in the backward pass."""

    reentrant = False

    def body(self, x):
        return checkpoint(super().body, x, use_reentrant=self.reentrant)


class Reentrant(Checkpointed):
    """As PyTorch did so first: a backward pass within the backward pass. The shared layer is outside of it."""

    reentrant = True

    def forward(self, inputs):
        return self.out(self.body(torch.cat([self.looked_up(*inputs[:2]), inputs[2]], 1))).squeeze(1)


class LookedUpAgain(Network):
    """Its look-ups are made again in the backward pass."""

    def looked_up(self, ids, bags):
        return checkpoint(super().looked_up, ids, bags, use_reentrant=False)


class Listed(Network):
    """A list of parameters, kept when the module was made, is a term of the loss."""

    def __init__(self):
        super().__init__()
        self.penalised = [self.hidden.weight, *self.shared.parameters()]

    def forward(self, inputs):
        return super().forward(inputs) + 0.1 * sum(p.square().sum() for p in self.penalised)


class Viewed(Network):
    """Computes with a view of a parameter that was made with the module."""

    def __init__(self):
        super().__init__()
        self.first = self.hidden.weight[:3]
        self.bias = self.hidden.bias.data

    def forward(self, inputs):
        return super().forward(inputs) + self.first.sum() + self.bias.sum()


class Hooked(Network):
    """Hooks change gradients: as they come, and once they are there."""

    def __init__(self):
        super().__init__()
        self.hidden.weight.register_hook(lambda gradient: gradient * 0.25)
        self.out.bias.register_post_accumulate_grad_hook(doubled)
        self.items.register_full_backward_hook(lambda layer, given, gradients: None)


def doubled(parameter):
    parameter.grad.mul_(2)


class Slopes(Network):
    """The slope of its output is a term of the loss: a gradient within the forward pass."""

    def forward(self, inputs):
        numbers = inputs[2].clone().requires_grad_()
        found = super().forward((*inputs[:2], numbers))
        slope, = torch.autograd.grad(found.sum(), numbers, create_graph=True)
        found = found + self.items(inputs[0] * 0 + (slope.isnan().any() + 1)).sum(1)  # the last look-up is after it
        return found + slope.square().sum(1) + torch.autograd.grad(
            found.sum(), self.hidden.weight, create_graph=True)[0].square().sum()


def made(kind):
    torch.manual_seed(5)
    return kind()


def data(microbatches=2):
    return data_of(microbatches, 8 // microbatches)


@pytest.mark.parametrize("kind", [Network, Checkpointed, Reentrant, LookedUpAgain, Listed, Viewed, Hooked, Slopes])
def test_a_training_is_the_plain_loop(kind):
    pieces = 1 if kind is Hooked else 2  # a hook is given the gradient of a microbatch
    found = hold_to_plain_loop(lambda: made(kind), squared, data(pieces))
    assert found[-1] != pytest.approx(found[0], rel=0.01)



class Penalising(Network):
    """A list that has a table's weight, too, as some recommenders keep."""

    def __init__(self):
        super().__init__()
        self.penalised = list(self.parameters())

    def forward(self, inputs):
        return super().forward(inputs) + 0.01 * sum(p.square().sum() for p in self.penalised)


class Transposed(Network):
    """Words in, words out of one table, by a view that was made with the module."""

    def __init__(self):
        super().__init__()
        self.scores = [{"of items": self.items.weight.t()}]

    def forward(self, inputs):
        return super().forward(inputs) + (self.items(inputs[0]) @ self.scores[0]["of items"]).sum(1)


class Copied(Network):
    """The same with a buffer that is in the table's memory."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scores", self.items.weight.detach())

    def forward(self, inputs):
        return super().forward(inputs) + (self.items(inputs[0]) @ self.scores.T).sum(1)


class TwoOfOne(Network):
    """Two parameters in one memory."""

    def __init__(self):
        super().__init__()
        self.scores = nn.Linear(WIDTH, ROWS, **DOUBLE)
        self.scores.weight = nn.Parameter(self.items.weight.data)

    def forward(self, inputs):
        return super().forward(inputs) + self.scores(self.items(inputs[0])).sum(1)


class SteepTable(Network):
    """The slope by a table's weight."""

    def forward(self, inputs):
        found = super().forward(inputs)
        return found + torch.autograd.grad(found.sum(), self.items.weight, create_graph=True)[0].square().sum()


class HookedTable(Network):
    """A hook of a table's weight."""

    def __init__(self):
        super().__init__()
        self.items.weight.register_hook(lambda gradient: gradient * 2)


def outer(module):
    """Return a loss with a view of a table's weight that it has from before."""
    view = module.items.weight[:3]
    return lambda module, batch: squared(module, batch) + view.square().sum()


def iterating(module, batch):
    return squared(module, batch) + sum(p.square().sum() for p in module.parameters())


@pytest.mark.parametrize("kind, said", [
    (Penalising, "items.weight is used outside of its layer .*regularisation"),
    (Transposed, r"scores of Transposed is in the memory of items.weight.* dense=\['items.weight'\]"),
    (SteepTable, r"items.weight is used outside of its layer \(grad; .* dense=\['items.weight'\]"),
    (HookedTable, r"items.weight has a hook.* dense=\['items.weight'\]"),
])
def test_a_table_that_something_else_refers_to(kind, said):
    """Refused with a remedy, which is right."""
    with pytest.raises((ValueError, CollectiveError), match=said):
        losses_of(made(kind), squared, data())
    hold_to_plain_loop(lambda: made(kind), squared, data(), dense=["items.weight", "tags.weight"])


@pytest.mark.parametrize("kind", [Copied, TwoOfOne])
def test_two_names_of_one_memory(kind):
    with pytest.raises(ValueError, match="items.weight and scores|scores(.weight)? and items.weight are in one memory"):
        TorchModel(made(kind), squared)


def test_a_loss_that_refers_to_a_table():
    module = made(Network)
    with pytest.raises(CollectiveError, match="items.weight is used through a view"):
        losses_of(module, outer(module), data())
    with pytest.raises(CollectiveError, match="items.weight is used outside of its layer"):
        losses_of(made(Network), iterating, data())
    one, other = made(Network), made(Network)
    assert np.allclose(losses_of(one, outer(one), data(), dense=["items.weight", "tags.weight"]),
                       plain_losses(other, outer(other), data()), rtol=1e-12, atol=0)


class TakenAway(Network):
    """A hook that is an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.out.weight.register_post_accumulate_grad_hook(lambda parameter: setattr(parameter, "grad", None))


def freezing(module, batch):
    """A loss that trains a parameter in the first microbatch only."""
    found = squared(module, batch)
    module.out.bias.requires_grad_(False)
    return found


@pytest.mark.parametrize("kind, loss, said", [
    (TakenAway, squared, "a hook of out.weight has taken its gradient away"),
    (Network, freezing, "out.bias has requires_grad=False, and had True when TorchModel was made"),
])
def test_what_the_training_itself_does(kind, loss, said):
    with pytest.raises(CollectiveError, match=said):
        losses_of(made(kind), loss, data())


def test_a_table_whose_weight_is_computed_is_dense():
    def normed():
        module = made(Network)
        nn.utils.weight_norm(module.items, dim=0)
        return module

    hold_to_plain_loop(normed, squared, data())


def test_a_part_that_is_computed_again_by_itself_more_than_once():
    """Its parameters get their gradients in several parts: what left after the first would not be all."""
    class Twice(Reentrant):
        def body(self, x):
            return checkpoint(self.shared, super().body(x), use_reentrant=True)

    with pytest.raises(CollectiveError, match=r"the gradient of shared.* comes in several.* use_reentrant=False"):
        losses_of(made(Twice), squared, data())
