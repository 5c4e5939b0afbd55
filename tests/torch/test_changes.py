"""What is changed behind a model's back: parameters between trainings, values in a way that PyTorch does not count."""

import copy

import numpy as np
import pytest
import torch
from framework_toys import computed
from mpi4py import MPI
from plain_loop import RATE, STEPS, losses_of, plain_losses
from toy_modules import batch_of, data_of, squared
from torch import nn

from refimpl.torch import TorchModel
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.transport import CollectiveError

DOUBLE = {"dtype": torch.float64}


class Student(nn.Module):
    """Learns beside a teacher that is not trained."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.out, self.teacher = nn.Linear(2, 1, **DOUBLE), nn.Linear(2, 1, **DOUBLE).requires_grad_(False)
        self.teacher.load_state_dict(self.out.state_dict())

    def forward(self, inputs):
        self.change()
        return self.out(inputs[2]).squeeze(1) + self.teacher(inputs[2]).squeeze(1)

    def change(self):
        """Change nothing, in this class."""


class Following(Student):
    """The teacher follows; at first it is where the student is."""

    def change(self):
        self.teacher.weight.data.add_(self.out.weight.data - self.teacher.weight.data, alpha=0.1)


class Bounded(Student):
    """Values are bounded; at first they lie within."""

    def change(self):
        self.least = self.__dict__.get("least", float(self.out.weight.min()))
        self.out.weight.data.clamp_(self.least)


class Annealed(Student):
    """Its loss depends on the number of calls, later."""

    def forward(self, inputs):
        self.calls = self.__dict__.get("calls", 0) + 1
        return super().forward(inputs) / max(1, self.calls - 5)


@pytest.mark.parametrize("kind, said", [
    (Following, "parameter teacher.weight is changed in place in the forward pass"),
    (Bounded, "parameter out.weight is changed in place in the forward pass"),
    (Annealed, "the loss of a microbatch changes when it is computed again"),
])
def test_what_changes_later_than_in_the_first_microbatch(kind, said):
    with pytest.raises(CollectiveError, match=said):
        losses_of(kind(), squared, data_of(2, 4))


def test_a_state_that_the_loss_writes_to():
    def counted(module, batch):
        batch.state.setdefault("count", torch.zeros(1, **DOUBLE)).add_(1)
        return squared(module, batch) * batch.state["count"].sum()

    model = TorchModel(Student(), counted)
    for count in (2, 3):
        batch = batch_of()
        batch.state = {"count": np.full(64, count - 1.0)[:1]}
        computed(model, batch)
        assert batch.state["count"] == count


def frozen(module):
    module.out.bias.requires_grad_(False)


def unfrozen(module):
    module.teacher.requires_grad_(True)


def assigned(module):
    module.load_state_dict(copy.deepcopy(module.state_dict()), assign=True)


def replaced(module):
    module.out = nn.Linear(2, 1, **DOUBLE)


def added(module):
    module.more = nn.Linear(2, 1, **DOUBLE)


@pytest.mark.parametrize("change, said", [
    (frozen, "out.bias has requires_grad=False, and had True .* make another TorchModel"),
    (unfrozen, r"teacher.(weight|bias) has requires_grad=True, and had False .* make another TorchModel"),
    (assigned, "out.(weight|bias) is another parameter .* make the TorchModel after it"),
    (replaced, "out.(weight|bias) is another parameter .* make the TorchModel after it"),
    (added, "more.(weight|bias) is another parameter .* make the TorchModel after it"),
])
def test_a_module_with_other_parameters_than_its_model(change, said):
    module = Student()
    model = TorchModel(module, squared, unused="zero")
    change(module)
    with pytest.raises(CollectiveError, match=said):
        train(model, data_of(2, 4), comm=MPI.COMM_SELF, options=Options(steps=1))
    train(TorchModel(module, squared, unused="zero"), data_of(2, 4), comm=MPI.COMM_SELF, options=Options(steps=1))


class Misplaced(nn.Module):
    """A parameter that lies between the multiples of 64 bytes, as values of a file may; a view of it."""

    def __init__(self, viewed=False):
        super().__init__()
        torch.manual_seed(5)
        self.weight = nn.Parameter(torch.randn(3, **DOUBLE)[1:])
        self.first = self.weight[:1] if viewed else None

    def forward(self, inputs):
        return inputs[2] @ self.weight


def test_a_second_training_of_a_parameter_that_was_moved_goes_on():
    module, plain = Misplaced(), Misplaced()
    model, found = TorchModel(module, squared), []
    for _ in range(2):
        train(model, data_of(2, 4), comm=MPI.COMM_SELF, progress=lambda record: found.append(record["loss"]),
              options=Options(steps=STEPS, optimizer="sgd", learning_rate=RATE))
    wanted = plain_losses(plain, squared, data_of(2, 4)) + plain_losses(plain, squared, data_of(2, 4))
    assert np.allclose(found, wanted, rtol=1e-12, atol=0)


def test_a_view_of_a_parameter_that_is_moved():
    with pytest.raises(ValueError, match=r"first of Misplaced is in the memory of weight.* no multiple of 64 .*clone"):
        TorchModel(Misplaced(viewed=True), squared)
