"""One rank's trainer against the plain one (refimpl.plain.hybrid): every bit of parameters, state, loss and norm."""

import numpy as np
import pytest
from mpi4py import MPI
from toys import DEVICE, RATES, WORKS, Script, Scripted, Toy, make_options, toy_data, whole_state

from kernels import RowGradient, array_module, to_numpy
from kernels.arrays import aligned
from refimpl.plain.hybrid import Hybrid
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer

CASES = [(work, optimizer) for work in WORKS for optimizer in RATES]


class NumpyIn:
    """A model that computes with the arrays of ``xp``, for one who has NumPy's: they are taken there and back."""

    def __init__(self, model, xp):
        self.model, self.xp, self.variables, self.rows_needed = model, xp, model.variables, model.rows_needed

    def loss_and_gradients(self, dense, rows, batch):
        there = ({name: self.xp.array(values) for name, values in given.items()} for given in (dense, rows))
        loss, gradients = self.model.loss_and_gradients(*there, batch)
        return float(loss), {name: RowGradient(to_numpy(g.ids), to_numpy(g.rows)) if isinstance(g, RowGradient)
                             else np.array(to_numpy(g) if np.ndim(g) else float(g), g.dtype)
                             for name, g in gradients.items()}


def plain_training(model, data, options, xp=np):
    return Hybrid(NumpyIn(model, xp), data, options, MPI.COMM_SELF)


def assert_same_bits(trainer, plain, optimizer):
    for (name, slot), array in whole_state(trainer, optimizer).items():
        expected = plain.strategies[name].values if slot is None else plain.optimizer.state[name][slot]
        assert array.dtype == expected.dtype and array.shape == expected.shape
        assert array.tobytes() == expected.tobytes(), (name, slot)


def train_both(model, data, options, steps=4):
    """Train both ways, comparing after every step; return the norms."""
    trainer = Trainer.open(model, data, options, MPI.COMM_SELF)
    plain = plain_training(model, data, options, trainer.xp)
    norms = []
    for _ in range(steps):
        record = trainer.train_step()
        plain.step()
        assert (record["loss"], record["gradient_norm"]) == (plain.loss, plain.norm)
        assert_same_bits(trainer, plain, options.optimizer)
        norms.append(plain.norm)
    return norms


@pytest.mark.parametrize("work, optimizer", CASES)
def test_every_bit_is_the_definitions(work, optimizer):
    model, data, _ = WORKS[work]
    options = make_options(work, optimizer)
    assert max(train_both(model(), data(), options)) > options.clip_norm  # clipping was on


@pytest.mark.parametrize("microbatches", [1, 2, 3, 5, 6, 7, 13])
@pytest.mark.parametrize("architecture", ["hybrid", "allreduce", "ps"])
def test_any_number_of_microbatches(microbatches, architecture):
    train_both(Toy(), toy_data(microbatches), make_options("toy", "adam", architecture=architecture))


def test_options_reach_the_mathematics():
    for changes in ({"average_sparse": False}, {"clip_norm": None}, {"weight_decay": 0.0}, {"seed": 5},
                    {"optimizer_options": {"beta1": 0.5, "epsilon": 1e-3}}, {"sparse_as_dense": True,
                    "architecture": "allreduce"}):
        train_both(Toy(), toy_data(), make_options("toy", "adam", **changes))


def test_the_comparison_sees_one_bit():
    options = make_options("toy", "adam")
    trainer = Trainer.open(Toy(), toy_data(), options, MPI.COMM_SELF)
    plain = plain_training(Toy(), toy_data(), options, trainer.xp)
    trainer.train_step()
    plain.step()
    assert_same_bits(trainer, plain, "adam")
    table = plain.optimizer.state["table"]["second"]
    table[3, 1] = np.nextafter(table[3, 1], np.float32(1))
    with pytest.raises(AssertionError):
        assert_same_bits(trainer, plain, "adam")


SETTINGS = [dict(architecture="allreduce"), dict(architecture="allreduce", sparse_as_dense=True),
         dict(architecture="ps"), dict(architecture="hybrid")]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_negative_zeros_survive_every_setting(settings):
    """x - rate * -0.0 tells -0.0 from 0.0 where x is -0.0: an absent row must add nothing at all."""
    check_negative_zeros(device=DEVICE, **settings)


@pytest.mark.usefixtures("cupy")
def test_negative_zeros_survive_on_a_device():
    check_negative_zeros(device="cuda", **SETTINGS[1])


def check_negative_zeros(**settings):
    data = Script([[{1: [-0.0, 0.0]}, {2: [-0.0, -0.0]}, {2: [0.0, -0.0]}, None, {}]])
    options = Options(optimizer="sgd", learning_rate=1.0, **settings)
    trainer = Trainer.open(Scripted(initial=-0.0), data, options, MPI.COMM_SELF)
    trainer.train_step()
    signs = np.signbit(whole_state(trainer, "sgd")["rows", None])
    assert signs[1].tolist() == [False, True] and signs[2].tolist() == [True, False]
    assert signs[0].all() and signs[3:].all()
    train_both(Scripted(initial=-0.0), data, options, steps=3)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("architecture", ["hybrid", "ps"])
@pytest.mark.usefixtures("cupy")
def test_dense_values_lie_where_products_may_find_any_array(architecture, overlap):
    """A GPU's products could be other bits where a strategy lays its arena out otherwise."""

    class Watching(Toy):
        def loss_and_gradients(self, dense, rows, batch):
            assert all(aligned(dense[name]) is dense[name] for name in dense)
            seen.update(dense)
            return super().loss_and_gradients(dense, rows, batch)

    seen: dict = {}
    options = make_options("toy", "adam", device="cuda", architecture=architecture, overlap=overlap)
    trainer = Trainer.open(Watching(), toy_data(), options, MPI.COMM_SELF)
    trainer.train_step()
    assert set(seen) == {v.name for v in trainer.model.variables if not v.sparse}


def test_a_models_views_and_buffers_are_taken_as_they_are():
    """Gradients that are transposed, strided or all one buffer give the numbers of their copies."""

    class Viewing(Toy):
        def loss_and_gradients(self, dense, rows, batch):
            loss, gradients = super().loss_and_gradients(dense, rows, batch)
            gradients["weight"] = array_module(gradients["weight"]).asfortranarray(gradients["weight"])
            wide = np.repeat(gradients["table"].rows, 2, axis=1)
            gradients["table"] = type(gradients["table"])(np.repeat(gradients["table"].ids, 2)[::2], wide[:, ::2])
            return loss, gradients

    options = make_options("toy", "adam")
    trainer = Trainer.open(Viewing(), toy_data(), options, MPI.COMM_SELF)
    plain = plain_training(Toy(), toy_data(), options, trainer.xp)
    for _ in range(3):
        trainer.train_step()
        plain.step()
    assert_same_bits(trainer, plain, "adam")
