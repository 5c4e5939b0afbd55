"""The first microbatch is compared with PyTorch alone: what no other check sees is refused, with its variable."""

import pytest
import torch
from framework_toys import computed
from mpi4py import MPI
from test_own_parameters import Checkpointed, Hooked, Listed, LookedUpAgain, Slopes, Viewed, made
from toy_modules import Recommender, batch_of, data_of, squared
from torch import nn

import refimpl.torch.alone as alone
from refimpl.torch import TorchModel
from refimpl.torch.tables import PulledRows
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.transport import CollectiveError


class Looking(Recommender):
    """Computes something else while its table is not a plain parameter."""

    def forward(self, inputs):
        return super().forward(inputs) * (1 if type(self.items.weight) is nn.Parameter else 3)


class LookingBack(Recommender):
    """Its loss is always the same, and only the gradient of its last layer is another one."""

    def forward(self, inputs):
        found = super().forward(inputs)
        factor = 1 if "forward" not in vars(self.tags) else 3
        bias = self.out.bias
        return found + factor * (bias - bias.detach())


def without_padding(self, layer):
    return None


def doubled(self, rows, to_array, gradient=PulledRows.gradient):
    return gradient(self, 2 * rows, to_array)


@pytest.mark.parametrize("kind, said", [
    (Looking, "the loss of the first microbatch is not the one that PyTorch alone computes"),
    (LookingBack, "the gradient of out.bias of the first microbatch is not the one that PyTorch alone computes"),
])
def test_a_module_that_behaves_otherwise_in_a_training(kind, said):
    with pytest.raises(CollectiveError, match=said):
        train(TorchModel(kind(), squared), data_of(2, 8), options=Options(steps=1), comm=MPI.COMM_SELF)


@pytest.mark.parametrize("method, mistake", [("_padding", without_padding), ("gradient", doubled)])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_mistake_in_a_table(monkeypatch, method, mistake, sparse):
    monkeypatch.setattr(PulledRows, method, mistake)
    with pytest.raises(ValueError, match="the (gradient of items.weight|loss) of the first microbatch is not"):
        computed(TorchModel(Recommender(sparse=sparse), squared), batch_of())


def test_a_mistake_that_nobody_looked_at(monkeypatch):
    """It is this comparison that finds it, and large tables are left out of it."""
    monkeypatch.setattr(PulledRows, "gradient", doubled)
    monkeypatch.setattr(alone, "MOST_BYTES", 8)
    computed(TorchModel(Recommender(), squared), batch_of())


@pytest.mark.parametrize("kind", [Checkpointed, LookedUpAgain, Listed, Viewed, Hooked, Slopes])
def test_a_module_with_other_references_to_its_parameters_is_not_refused(kind):
    module = made(kind)
    computed(TorchModel(module, squared), batch_of())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_tables_on_the_meta_device_and_with_sparse_gradients_are_compared(monkeypatch):
    compared = []
    monkeypatch.setattr(alone, "_check", lambda name, ours, theirs, check=alone._check: (
        compared.append(name), check(name, ours, theirs)))
    module = Recommender(sparse=True)
    with torch.device("meta"):
        module.items = nn.Embedding(40, 4, padding_idx=0, dtype=torch.float64)
    computed(TorchModel(module, squared), batch_of())
    assert {"loss", "items.weight", "tags.weight", "out.bias"} <= set(compared)
    assert module.items.weight.is_meta and module.tags.sparse
