"""Training on one rank against PyTorch's own loop: each step of every optimizer, dense and by row, in float64.

Both begin each step at the same values and state, so that nothing adds up but the roundings of one step. A value that
takes n operations from numbers of size x, each rounded once, is within gamma_n x of exact (Higham 2002, section 3.1):
the two are within twice that. n is at most 20 in every update here; x is said beside each.
"""

import numpy as np
import pytest
import torch
from mpi4py import MPI
from toy_modules import LOSSES, data_of, model_of, module_of

from kernels.random import key_of
from refimpl.conformance.rules.bounds import gamma
from refimpl.torch.tensors import on_device
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

RATE, STEPS = 0.05, 4
TWICE = 2 * gamma(20, np.float64)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=RATE)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=RATE, momentum=0.9)


def adagrad(parameters):
    return torch.optim.Adagrad(parameters, lr=RATE, initial_accumulator_value=1.0, eps=0.0)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=RATE, eps=1e-30)


def sparse_adam(parameters):
    return torch.optim.SparseAdam(parameters, lr=RATE, eps=1e-30)  # eps of the uncorrected root: so small a one is none


SLOTS = {sgd: {}, momentum: {"velocity": "momentum_buffer"}, adagrad: {"accumulator": "sum"},
         adam: {"first": "exp_avg", "second": "exp_avg_sq"}, sparse_adam: {"first": "exp_avg", "second": "exp_avg_sq"}}
OPTIONS = {"momentum": {}, "sgd": {}, "adagrad": {}, "adam": {"epsilon": 1e-30}}


def arrays(trainer, slots):
    """Return (variable, slot or None) -> array as the trainer has it now."""
    return {(v.name, slot): np.array(trainer.parameters.collect(v.name, slot)) for v in trainer.model.variables
            for slot in (None, *([] if v.statistic else slots))}


def bound(name, before, gradient, found):
    """Return how far two updates of one element may be apart: gamma times the sum of what is added up, divided by."""
    p = np.abs(before[None])
    if name == "adam":
        first = np.abs(before["first"]) + np.abs(gradient)  # of m + 0.1 (g - m); 0.1 is made up for by 1 / (1 - b1^t)
        root = np.sqrt(found["second"]) + 1e-30
        return {None: TWICE * (p + RATE * 11 * first / root), "first": TWICE * 2 * first,
                "second": TWICE * (before["second"] + gradient**2)}
    if name == "adagrad":
        return {None: TWICE * (p + RATE * np.abs(gradient) / np.sqrt(found["accumulator"])),
                "accumulator": TWICE * (before["accumulator"] + gradient**2)}
    velocity = np.abs(before.get("velocity", 0)) + np.abs(gradient)
    return {None: TWICE * (p + RATE * velocity), "velocity": TWICE * velocity}


CASES = {"sgd": ("sgd", sgd, sgd), "adagrad": ("adagrad", adagrad, adagrad), "adam": ("adam", adam, sparse_adam),
         "momentum": ("momentum", momentum, None), "adam-dense": ("adam", adam, None)}
"""Case -> (our optimizer, PyTorch's, its for tables; None: they are dense variables, whose rows all move at once)."""
TABLES = ["items.weight", "tags.weight"]


@pytest.mark.parametrize("case", CASES)
def test_each_step_is_that_of_pytorchs_loop(case):
    assert compare(*CASES[case], RATE) == []


def test_another_rate_is_found():
    found = compare(*CASES["adam"], RATE * (1 + 1e-10))
    assert {name for name, slot in found} > {"items.weight", "out.bias"} and {slot for _, slot in found} == {None}


def compare(name, dense, by_row, rate) -> list:
    """Train with our rate and PyTorch's own loop with RATE; return (variable, slot) of what is too far apart."""
    model = model_of("recommender", dense=[] if by_row else TABLES)
    data, slots, wrong = data_of(1, 16), SLOTS[dense], []
    options = Options(optimizer=name, learning_rate=rate, optimizer_options=OPTIONS[name], steps=STEPS)
    trainer = Trainer.open(model, data, options, MPI.COMM_SELF)
    theirs = module_of("recommender", sparse=by_row is not None)
    named = dict(theirs.named_parameters())
    optimizers = [dense([p for n, p in named.items() if n not in TABLES or not by_row])]
    optimizers += [by_row([named[n] for n in TABLES])] if by_row else []
    for step in range(STEPS):
        before = arrays(trainer, slots)
        loss, gradients = their_step(theirs, optimizers, dense, before, data, step)
        assert trainer.train_step()["loss"] == loss
        after = arrays(trainer, slots)
        for n, p in named.items():
            theirs_now = {None: p.detach().numpy()}
            theirs_now |= {slot: state_of(optimizers, p)[other].numpy() for slot, other in slots.items()}
            limits = bound(name, {slot: before[n, slot] for slot in theirs_now}, gradients[n],
                           {slot: after[n, slot] for slot in theirs_now})
            wrong += [(n, slot) for slot, value in theirs_now.items()
                      if not (np.abs(value - after[n, slot]) <= limits[slot]).all()]
            if by_row and n in TABLES:
                rest = ~gradients[n].any(axis=1)
                assert rest.any() and all(np.array_equal(after[n, s][rest], before[n, s][rest]) for s in theirs_now)
    return wrong


def state_of(optimizers, parameter) -> dict:
    return next((o.state[parameter] for o in optimizers if parameter in o.state), {})


def their_step(module, optimizers, kind, before, data, step):
    """Do one step of PyTorch's own loop from our values and state; return its loss, and gradients as arrays."""
    with torch.no_grad():
        for name, tensor in (*module.named_parameters(), *module.named_buffers()):
            if (name, None) in before:
                tensor.copy_(torch.from_numpy(before[name, None]))
    for optimizer in optimizers:
        sparse = isinstance(optimizer, torch.optim.SparseAdam)
        for p in optimizer.param_groups[0]["params"]:
            name = next(n for n, q in module.named_parameters() if q is p)
            for slot, other in SLOTS[kind].items():
                optimizer.state[p][other] = torch.from_numpy(before[name, slot].copy())
            optimizer.state[p]["step"] = step if sparse else torch.tensor(float(step))
    batch = data.microbatch(step, 0)
    torch.manual_seed(key_of(0, "microbatch", step, 0))
    given = on_device(batch, torch.device("cpu"))
    loss = LOSSES["recommender"][1](module, given) / batch.normaliser
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    gradients = {n: (p.grad.to_dense() if p.grad.is_sparse else p.grad).numpy().copy()
                 for n, p in module.named_parameters()}
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), gradients
