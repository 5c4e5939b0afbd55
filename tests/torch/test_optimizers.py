"""Training on one rank beside PyTorch's own loop: every optimizer, dense and by row, in float64.

Each single step is held to a proved bound in tests/kernels/test_update.py, each gradient to the bit in
test_gradients.py: here is what a module meets of both, step after step.
"""

from functools import partial

import pytest
import torch
from plain_loop import hold_to_plain_loop
from test_own_parameters import Network, data, made
from toy_modules import squared

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


def test_another_rate_is_found():
    with pytest.raises(AssertionError):
        hold_to_plain_loop(lambda: made(Network), squared, data(), ours={"learning_rate": RATE * (1 + 1e-8)},
                           theirs=partial(optimizers, SGD, None))
