"""Training on one rank against a loop written by hand: each step of every optimizer, dense and by row, in float64.

Both take the microbatch's gradients from the model (test_gradients.py holds those), and begin each step at the same
values and state. A value that takes n operations from numbers of size x, each rounded once, is within gamma_n x of
exact (Higham 2002, section 3.1): the two are within twice that. n is at most 20 in every update; x is said beside each.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest
from mpi4py import MPI
from toy_losses import data_of, ready

from kernels.random import key_of
from refimpl.conformance.rules.bounds import gamma
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

RATE, STEPS, TINY = 0.05, 4, 1e-30
TWICE = 2 * gamma(20, np.float64)
TABLES = ["items", "tags"]


def sgd(p, g, step, rate):
    return {None: p[None] - rate * g}, {None: np.abs(p[None]) + RATE * np.abs(g)}


def momentum(p, g, step, rate):
    v = 0.9 * p["velocity"] + g
    size = np.abs(p["velocity"]) + np.abs(g)
    return {None: p[None] - rate * v, "velocity": v}, {None: np.abs(p[None]) + RATE * size, "velocity": size}


def adagrad(p, g, step, rate):
    a = p["accumulator"] + g**2
    change = rate * g / np.sqrt(a)
    return {None: p[None] - change, "accumulator": a}, {None: np.abs(p[None]) + np.abs(change), "accumulator": a}


def adam(p, g, step, rate):
    m, v = 0.9 * p["first"] + 0.1 * g, 0.999 * p["second"] + 0.001 * g**2
    root = np.sqrt(v / (1 - 0.999**step)) + TINY
    size = np.abs(p["first"]) + np.abs(g)  # of m, whose 0.1 is made up for by 1 / (1 - 0.9^t)
    return ({None: p[None] - rate * m / (1 - 0.9**step) / root, "first": m, "second": v},
            {None: np.abs(p[None]) + RATE * 11 * size / root, "first": size, "second": p["second"] + g**2})


OPTIMIZERS = {"sgd": sgd, "momentum": momentum, "adagrad": adagrad, "adam": adam}
SLOTS = {"sgd": (), "momentum": ("velocity",), "adagrad": ("accumulator",), "adam": ("first", "second")}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_step_is_that_of_a_loop_by_hand(name):
    with jax.enable_x64(True):
        assert compare(name, RATE) == []


def test_another_rate_is_found():
    with jax.enable_x64(True):
        assert set(compare("adam", RATE * (1 + 1e-10))) > {("items", None), ("out", None)}


def compare(name, rate) -> list:
    """Train with our rate and the loop with another one; return (variable, slot) of what is too far apart."""
    model, data, wrong = ready("rated", "float64"), data_of(1, 16, "float64"), []
    options = Options(optimizer=name, learning_rate=RATE, steps=STEPS,
                      optimizer_options={"epsilon": TINY} if name == "adam" else {})
    trainer = Trainer.open(model, data, options, MPI.COMM_SELF)

    def values():
        return {v.name: {slot: np.array(trainer.parameters.collect(v.name, slot)) for slot in (None, *SLOTS[name])}
                for v in model.variables}

    for step in range(STEPS):
        before = values()
        loss, gradients = by_hand(model, {n: value[None] for n, value in before.items()}, data, step)
        assert trainer.train_step()["loss"] == loss
        for n, found in values().items():
            wanted, sizes = OPTIMIZERS[name](before[n], gradients[n], step + 1, rate)
            rows = gradients[n].any(axis=1) if n in TABLES else np.ones(gradients[n].shape[:1], bool)
            wrong += [(n, slot) for slot, value in wanted.items()
                      if not (np.abs(value - found[slot]) <= TWICE * sizes[slot])[rows].all()]
            if n in TABLES:
                assert not rows.all() and all(np.array_equal(found[s][~rows], before[n][s][~rows]) for s in found)
    return wrong


def by_hand(model, values, data, step):
    """Return (loss, name -> whole gradient) of the one microbatch of a step."""
    batch = replace(data.microbatch(step, 0), key=key_of(0, "microbatch", step, 0))
    rows = {name: values[name][ids] for name, ids in model.rows_needed(batch).items()}
    loss, gradients = model.loss_and_gradients(values, rows, batch)
    for name in TABLES:
        whole = np.zeros_like(values[name])
        whole[gradients[name].ids] = gradients[name].rows
        gradients[name] = whole
    return loss, gradients
