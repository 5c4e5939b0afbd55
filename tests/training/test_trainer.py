"""One rank's trainer where a hash needs a script to say something: zeros with a sign, and arrays of every kind."""

import numpy as np
import pytest
from mpi4py import MPI
from toys import (
    BY_ROWS, DEVICE, Lying, Script, Scripted, answer, answer_of, make_options, plain_training, toy_data, whole_state,
)

from kernels import RowGradient, array_module
from kernels.arrays import aligned
from refimpl.training.options import Options
from refimpl.training.run.whole import hashes
from refimpl.training.trainer import Trainer


@pytest.mark.parametrize("settings", BY_ROWS, ids=str)
def test_negative_zeros_survive_every_setting(settings):
    """x - rate * -0.0 tells -0.0 from 0.0 where x is -0.0: an absent row must add nothing at all."""
    check_negative_zeros(device=DEVICE, **settings)


@pytest.mark.usefixtures("cupy")
def test_negative_zeros_survive_on_a_device():
    check_negative_zeros(device="cuda", **BY_ROWS[1])


def check_negative_zeros(**settings):
    data = Script([[{1: [-0.0, 0.0]}, {2: [-0.0, -0.0]}, {2: [0.0, -0.0]}, None, {}]])
    options = Options(optimizer="sgd", learning_rate=1.0, **settings)
    trainer = Trainer.open(Scripted(initial=-0.0), data, options, MPI.COMM_SELF)
    plain = plain_training(Scripted(initial=-0.0), data, options)
    for step in range(3):
        record = trainer.train_step()
        plain.step()
        assert (record["loss"], record["gradient_norm"]) == (plain.loss, plain.norm)
        assert hashes(trainer.parameters)["parameters_sha256"] == plain.sha256()
        if step == 0:
            signs = np.signbit(whole_state(trainer)["rows", None])
            assert signs[1].tolist() == [False, True] and signs[2].tolist() == [True, False]
            assert signs[0].all() and signs[3:].all()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("architecture", ["hybrid", "ps"])
@pytest.mark.usefixtures("cupy")
def test_dense_values_lie_where_products_may_find_any_array(architecture, overlap):
    """A GPU's products could be other bits where a strategy lays its arena out otherwise."""
    def look(given):
        assert all(aligned(given.dense[name]) is given.dense[name] for name in given.dense)
        seen.update(given.dense)

    seen: dict = {}
    options = make_options("toy", "adam", device="cuda", architecture=architecture, overlap=overlap)
    trainer = Trainer.open(Lying(before=look), toy_data(), options, MPI.COMM_SELF)
    trainer.train_step()
    assert set(seen) == {v.name for v in trainer.model.variables if not v.sparse}


def test_a_models_views_and_buffers_are_taken_as_they_are():
    """Gradients that are transposed, strided or all one buffer give the numbers of their copies."""
    def views(model, batch, found):
        weight, table = found[1]["weight"], found[1]["table"]
        strided = RowGradient(np.repeat(table.ids, 2)[::2], np.repeat(table.rows, 2, axis=1)[:, ::2])
        return found[0], {**found[1], "weight": array_module(weight).asfortranarray(weight), "table": strided}

    trainer = Trainer.open(Lying(after=views), toy_data(), make_options("toy", "adam"), MPI.COMM_SELF)
    assert answer_of(trainer, 3) == answer("toy", "adam", MPI.COMM_SELF)
