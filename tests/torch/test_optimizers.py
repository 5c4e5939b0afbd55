"""Training on one rank beside PyTorch's own loop: every optimizer, dense and by row, in float64.

Each single step is held to a proved bound in tests/kernels/test_update.py, each gradient to the bit in
test_gradients.py: here is what a module meets of both, step after step.
"""

from functools import partial

import pytest
import torch
from mpi4py import MPI
from plain_loop import hold_to_plain_loop, losses_of
from test_own_parameters import Network, data, made
from toy_modules import data_of, module_of, squared
from torch.optim import lr_scheduler as schedulers

from refimpl import Options, train
from refimpl.torch import TorchModel
from refimpl.transport import CollectiveError

RATE = 0.05
TABLES = ["items.weight", "tags.weight"]
SGD, ADAM = partial(torch.optim.SGD, lr=RATE), partial(torch.optim.Adam, lr=RATE, eps=1e-30)
CASES = {
    "sgd": ("sgd", {}, SGD, SGD),
    "momentum": ("momentum", {}, partial(SGD, momentum=0.9), None),
    "nesterov": ("sgd", {"momentum": 0.8, "nesterov": True, "dampening": 0},
                 partial(SGD, momentum=0.8, nesterov=True), None),
    "adagrad": ("adagrad", {}, *[partial(torch.optim.Adagrad, lr=RATE, initial_accumulator_value=1.0, eps=0.0)] * 2),
    "adam": ("adam", {"epsilon": 1e-30}, ADAM, partial(torch.optim.SparseAdam, lr=RATE, eps=1e-30)),
    "adam-dense": ("adam", {"epsilon": 1e-30}, ADAM, None),
    "adamw": ("adamw", {"betas": (0.8, 0.95), "eps": 1e-6},
              partial(torch.optim.AdamW, lr=RATE, betas=(0.8, 0.95), eps=1e-6), None),
}
"""Case -> (our optimizer, its options, PyTorch's, its for tables; None: they are dense variables, whose rows all move).
"""


def optimizers(dense, by_row, module):
    """Return PyTorch's optimizers of a module."""
    named = dict(module.named_parameters())
    if by_row is None:
        return [dense(named.values())]
    module.items.sparse = module.tags.sparse = by_row.func is torch.optim.SparseAdam
    return [dense([p for name, p in named.items() if name not in TABLES]), by_row([named[name] for name in TABLES])]


@pytest.mark.parametrize("case", CASES)
def test_a_training_is_pytorchs_loop(case):
    name, options, dense, by_row = CASES[case]
    ours = {"optimizer": name, "optimizer_options": options, "learning_rate": RATE}
    hold_to_plain_loop(lambda: made(Network), squared, data(), ours=ours, theirs=partial(optimizers, dense, by_row),
                       dense=[] if by_row else TABLES)


def grouped(module):
    """As people write it: no decay for biases, a rate of their own for the tables."""
    named = dict(module.named_parameters())
    bias = [p for name, p in named.items() if name.endswith("bias")]
    rest = [p for name, p in named.items() if not name.endswith("bias") and name not in TABLES]
    return [{"params": [named[name] for name in TABLES], "lr": 0.2, "weight_decay": 0.0},
            {"params": bias, "weight_decay": 0.0}, {"params": rest}]


@pytest.mark.parametrize("name, theirs", [("adamw", torch.optim.AdamW), ("momentum", partial(SGD, momentum=0.9))])
def test_groups_are_pytorchs(name, theirs):
    """Given to both alike, tables dense; and by row, with a rate of their own."""
    ours = {"optimizer": name, "learning_rate": RATE, "weight_decay": 0.1}
    hold_to_plain_loop(lambda: made(Network), squared, data(), ours=ours, dense=TABLES, groups=grouped,
                       theirs=lambda module: [theirs(grouped(module), lr=RATE, weight_decay=0.1)])
    if name == "momentum":
        hold_to_plain_loop(lambda: made(Network), squared, data(), groups=grouped, ours=ours | {"optimizer": "sgd"},
                           theirs=lambda module: [SGD(grouped(module), weight_decay=0.1)])


def test_groups_matter():
    ours = {"optimizer": "adamw", "learning_rate": RATE}
    found = [losses_of(made(Network), squared, data(), ours, groups=groups) for groups in ((), grouped)]
    assert found[0][0] == found[1][0] and found[0][1] != found[1][1]


@pytest.mark.parametrize("change, said", [
    (lambda g: g[:2], "hidden.weight, shared.weight, out.weight is in no group, and PyTorch would not train it"),
    (lambda g: [*g, g[0]], "items.weight is in two groups"),
    (lambda g: [{**g[0], "betas": (0.9, 0.99)}, *g[1:]], "a group says betas: .*optimizer_options"),
    (lambda g: [*g, {"params": torch.nn.Linear(1, 1).weight}], "a group has 'a parameter', which is no trained"),
    (lambda g: [*g, {"params": "itemz"}], "a group has 'itemz', which is no trained"),
    (lambda g: [{**g[0], "lr": -1}, *g[1:]], "has learning_rate=-1: write a number of at least 0"),
])
def test_groups_that_are_refused(change, said):
    module = made(Network)
    with pytest.raises(ValueError, match=said):
        TorchModel(module, squared, groups=change(grouped(module)))


def test_a_resumed_training_has_the_groups_of_its_checkpoint(tmp_path):
    def trained(steps, lr, **how):
        module = made(Network)
        groups = [{**grouped(module)[0], "lr": lr}, *grouped(module)[1:]]
        options = Options(optimizer="adamw", learning_rate=RATE, steps=steps)
        return train(TorchModel(module, squared, groups=groups), data(), options=options, comm=MPI.COMM_SELF, **how)

    trained(2, 0.2, output=tmp_path)
    with pytest.raises(CollectiveError, match=r"learning_rate of parameter groups was {'items.weight': 0.2.* is now "
                                              r"{'items.weight': 0.1.*change=\['learning_rate'\]"):
        trained(4, 0.1, resume=tmp_path)
    assert trained(4, 0.1, resume=tmp_path, change=["learning_rate"]).steps == 4
    assert trained(4, 0.2, resume=tmp_path).parameters_sha256 == trained(4, 0.2).parameters_sha256


class Scheduled:
    """An optimizer and its scheduler, which a plain loop steps together."""

    def __init__(self, optimizer, make):
        self.optimizer, self.scheduler = optimizer, make(optimizer)

    def step(self):
        self.optimizer.step()
        self.scheduler.step()


SCHEDULERS = {"step": partial(schedulers.StepLR, step_size=2, gamma=0.5),
              "lambda": partial(schedulers.LambdaLR, lr_lambda=lambda step: 1 / (1 + step)),
              "cosine": partial(schedulers.CosineAnnealingLR, T_max=4),
              "one-cycle": partial(schedulers.OneCycleLR, max_lr=0.1, total_steps=9, cycle_momentum=False),
              "in turn": lambda optimizer: schedulers.SequentialLR(optimizer, [
                  schedulers.LinearLR(optimizer, 0.25, total_iters=2), schedulers.ExponentialLR(optimizer, 0.5)], [2])}


def first_rate(make):
    optimizer = SGD([torch.nn.Parameter(torch.zeros(1))])
    return make(optimizer), optimizer.param_groups[0]["initial_lr"]


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_is_the_rate(name):
    scheduler, start = first_rate(SCHEDULERS[name])
    before = scheduler.state_dict(), scheduler.optimizer.param_groups[0]["lr"]
    ours = {"rate": scheduler, "learning_rate": start}
    hold_to_plain_loop(lambda: made(Network), squared, data(), ours=ours, dense=TABLES,
                       theirs=lambda module: [Scheduled(SGD(module.parameters()), SCHEDULERS[name])])
    assert before == (scheduler.state_dict(), scheduler.optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("make, base, said", [
    (schedulers.ReduceLROnPlateau, RATE, "ReduceLROnPlateau needs the loss of each step: a loop of your own"),
    (SCHEDULERS["step"], 0.1, "learning_rate is 0.1, and StepLR begins at 0.05: say the same learning_rate"),
    (lambda _: schedulers.OneCycleLR(SGD([torch.nn.Parameter(torch.zeros(1))], momentum=0.9), 0.1, total_steps=9),
     0.004, "OneCycleLR changes momentum, too.*cycle_momentum=False"),
    (lambda _: schedulers.LambdaLR(SGD([{"params": [torch.nn.Parameter(torch.zeros(1))]} for _ in range(2)]),
                                   [lambda step: 1.0, lambda step: 0.5**step]), RATE, "by different factors"),
])
def test_schedulers_that_are_refused(make, base, said):
    with pytest.raises(ValueError, match=said):
        Options(rate=make(SGD([torch.nn.Parameter(torch.zeros(1))])), learning_rate=base, steps=5)


def test_running_statistics_move_as_the_layer_says():
    def make():
        module = module_of("recommender")
        module.dropout.p, module.norm.momentum = 0.0, 0.3
        return module

    hold_to_plain_loop(make, squared, data_of(1, 16))


class Moving(torch.nn.Module):
    """A moving average of its inputs, which it writes in two ways, and a layer with spectral norm."""

    def __init__(self):
        super().__init__()
        self.out = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(2, 1, dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(2, dtype=torch.float64))
        self.register_buffer("square", torch.ones(2, dtype=torch.float64))

    def forward(self, inputs):
        x = inputs[2]
        with torch.no_grad():
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            self.square = 0.5 * self.square + 0.5 * x.square().mean(0)
        return self.out((x - self.mean) / self.square.sqrt()).squeeze(1)


MOVING = ["mean", "square", "out.parametrizations.weight.0._u", "out.parametrizations.weight.0._v"]


def moving():
    torch.manual_seed(3)
    return Moving()


def test_buffers_that_a_forward_pass_changes():
    """One microbatch: PyTorch's loop. Several: the mean over the examples of what each has made of them."""
    hold_to_plain_loop(moving, squared, data_of(1, 16), buffers=MOVING)
    module, items = moving(), data_of(4, 4)
    losses_of(module, squared, items, {"steps": 1}, buffers=MOVING)
    numbers = torch.cat([torch.from_numpy(items.microbatch(0, v).inputs[2]) for v in range(4)])
    assert torch.allclose(module.mean, 0.1 * numbers.mean(0), rtol=1e-13)
    assert torch.allclose(module.square, 0.5 + 0.5 * numbers.square().mean(0), rtol=1e-13)


@pytest.mark.parametrize("names, said", [
    ([], r"buffer square is changed in the forward pass.*TorchModel\(..., buffers=\['square'\]\)"),
    (["mena"], "buffers names mena, which is no buffer of floats .* there are mean, square"),
    (["out.bias"], "buffers names out.bias"),
])
def test_buffers_that_are_not_named(names, said):
    with pytest.raises(Exception, match=said):
        losses_of(moving(), squared, data_of(1, 16), buffers=names)


def test_another_rate_is_found():
    with pytest.raises(AssertionError):
        hold_to_plain_loop(lambda: made(Network), squared, data(), ours={"learning_rate": RATE * (1 + 1e-8)},
                           theirs=partial(optimizers, SGD, None))
