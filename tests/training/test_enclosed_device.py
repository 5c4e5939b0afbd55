"""CPU and device lie within the proved bound: whole trainings against their enclosures; and what would not be seen.

On CuPy's stand-in, or on a GPU where there is one. Radii grow from operation to operation and from step to step (they
know no signs), so a training is compared for as many steps as its enclosures say something; float64 says more. Each
step by itself, from where the device was, is proved for any number of steps.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from mpi4py import MPI
from toys import WORKS, answer, make_options, plain_answer, whole_state

import models.cnn.batch_norm
from kernels import to_numpy
from models import Uniform
from models.cnn import ConvNet
from models.lm import PRESETS, LanguageModel
from models.nmt import PRESETS as NMT_PRESETS, TranslationModel
from refimpl.enclosure import OutsideError, distances, enclosed_step, enclosed_steps, state_at, within
from refimpl.enclosure.compare import distance
from refimpl.training.run.whole import key_of_array
from refimpl.training.trainer import Trainer


def attentive():
    """Return a translation model that begins with larger weights: else attention is even, and hardly moves."""
    model = TranslationModel(**NMT_PRESETS["tiny"], dtype="float64")
    model.variables = [v if v.shape == (1,) else replace(v, initial=Uniform(0.3)) for v in model.variables]
    return model


MODELS = {
    ("toy", "float32"): WORKS["toy"][0],
    ("lm", "float32"): WORKS["lm"][0],
    ("lm", "float64"): lambda: LanguageModel(**PRESETS["tiny"], dtype="float64"),
    ("nmt", "float64"): attentive,
    ("cnn", "float32"): lambda: ConvNet((8, 8, 1), 5, width=4, blocks=()),
    ("cnn", "float64"): lambda: ConvNet((8, 8, 1), 5, width=4, blocks=(1,), dtype="float64"),
}


@dataclass(frozen=True)
class Case:
    """A training that is compared. widest: largest radius at the end, as a part of the way that the parameters went."""

    work: str
    dtype: str
    optimizer: str
    steps: int
    widest: float

    def __str__(self):
        return f"{self.work}-{self.dtype}-{self.optimizer}"

    def model(self):
        return MODELS[self.work, self.dtype]()

    def data(self):
        return WORKS[self.work][1]()

    def options(self, **changes):
        return make_options(self.work, self.optimizer, **{"device": "cpu", **changes})

    def trainer(self, device, **changes):
        return Trainer.open(self.model(), self.data(), self.options(device=device, **changes), MPI.COMM_SELF)

    def arrays(self, trainer):
        return {key_of_array(*key): array for key, array in whole_state(trainer).items()}


CASES = [Case("toy", "float32", "sgd", 5, 1e-4), Case("toy", "float32", "momentum", 5, 1e-4),
         Case("toy", "float32", "adagrad", 5, 1e-4), Case("toy", "float32", "adam", 5, 2e-3),
         Case("lm", "float32", "adagrad", 2, 0.1), Case("lm", "float32", "momentum", 3, 0.1),
         Case("lm", "float64", "adagrad", 5, 1e-7), Case("lm", "float64", "adam", 4, 1e-3),
         Case("cnn", "float64", "momentum", 2, 1e-2), Case("cnn", "float32", "momentum", 2, 0.03),
         Case("nmt", "float64", "sgd", 3, 1e-6)]


def way(state, start):
    """Return the largest radius of the parameters as a part of the longest way that one went."""
    keys = [key for key in start if key.startswith("parameter/") and start[key].size]
    return max(state.arrays[key].radius.max() / np.abs(state.arrays[key].middle - start[key]).max() for key in keys)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.thorough("cnn-float32", "lm-float32-adagrad", "toy-float32-sgd")
def test_cpu_and_device_lie_in_the_enclosures(cupy, case):
    trainers = {device: case.trainer(device) for device in ("cpu", "cuda")}
    start = case.arrays(trainers["cpu"])
    for state, loss in enclosed_steps(case.model(), case.data(), case.options(), case.steps):
        found = {}
        for device, trainer in trainers.items():
            record = trainer.train_step()
            assert distance("loss", loss, record["loss"]).share <= 1
            found[device] = case.arrays(trainer)
            within(state, found[device])
        for key, enclosure in state.arrays.items():  # what the enclosures prove of the two
            assert (np.abs(found["cpu"][key].astype(float) - found["cuda"][key]) <= 2 * enclosure.radius).all(), key
    assert way(state, start) < case.widest


@pytest.mark.parametrize("case", [Case("lm", "float32", "adagrad", 3, 0.1),
                                  Case("cnn", "float64", "momentum", 3, 1e-4)], ids=str)
@pytest.mark.thorough("lm")
def test_each_step_lies_in_the_enclosure_of_where_the_device_was(cupy, case):
    trainer, model, data = case.trainer("cuda"), case.model(), case.data()
    for step in range(case.steps):
        start = case.arrays(trainer)
        carried = {v: {name: to_numpy(a) for name, a in some.items()} for v, some in trainer.carried.items()}
        state, _ = enclosed_step(model, data, case.options(), state_at(step, start, carried))
        trainer.train_step()
        within(state, case.arrays(trainer))
        assert way(state, start) < case.widest


@pytest.fixture(scope="module")
def reached():
    """A training's enclosures after two steps, and the arrays that it reached on the CPU."""
    case = replace(CASES[1], steps=2)
    trainer = case.trainer("cpu")
    *_, (state, _) = enclosed_steps(case.model(), case.data(), case.options(), case.steps)
    for _ in range(case.steps):
        trainer.train_step()
    return state, case.arrays(trainer)


def test_an_error_just_larger_than_the_radius_is_seen(reached):
    """In every array: the element with the largest radius, moved to just inside and just outside of its ball."""
    state, arrays = reached
    for key, enclosure in state.arrays.items():
        if enclosure.radius.any():
            at = np.unravel_index(enclosure.radius.argmax(), enclosure.shape)
            for share, is_seen in ((0.999, False), (1.001, True)):
                moved = arrays[key].astype(float)
                moved[at] = enclosure.middle[at] + share * enclosure.radius[at]
                found = distances(state, {**arrays, key: moved})
                assert [one.name for one in found if one.outside] == ([key] if is_seen else [])
                if is_seen:
                    with pytest.raises(OutsideError, match=f"after step 2 .*{key}"):
                        within(state, {**arrays, key: moved})


def test_what_is_no_number_or_missing_is_seen(reached):
    state, arrays = reached
    broken = arrays["parameter/weight"].copy()
    broken[1, 2] = np.nan
    with pytest.raises(OutsideError, match=r"element \[1, 2\] of 'parameter/weight'"):
        within(state, {**arrays, "parameter/weight": broken})
    with pytest.raises(ValueError, match="only one of the training and its enclosure has parameter/weight"):
        within(state, {key: array for key, array in arrays.items() if key != "parameter/weight"})
    with pytest.raises(ValueError, match="shape"):
        within(state, {**arrays, "parameter/weight": broken[1:]})


WRONG = [(CASES[1], dict(optimizer_options={"mu": 0.9003})), (CASES[0], dict(learning_rate=0.50003)),
         (CASES[2], dict(clip_norm=0.050005)), (CASES[3], dict(optimizer_options={"beta2": 0.9991})),
         (CASES[3], dict(weight_decay=0.0105)), (CASES[4], dict(optimizer_options={"epsilon": 0.5})),
         (CASES[6], dict(optimizer_options={"epsilon": 1e-5})), (CASES[8], dict(optimizer_options={"mu": 0.901})),
         (CASES[8], dict(weight_decay=5.001e-4))]


@pytest.mark.parametrize("case, wrong", WRONG, ids=lambda one: str(one))
@pytest.mark.thorough("toy")
def test_a_training_that_is_slightly_wrong_is_seen(case, wrong):
    trainer = case.trainer("cpu", **wrong)
    with pytest.raises(OutsideError):
        for state, _ in enclosed_steps(case.model(), case.data(), case.options(), 2):
            trainer.train_step()
            within(state, case.arrays(trainer))


def test_another_epsilon_of_batch_normalisation_is_seen(monkeypatch):
    case = CASES[8]
    monkeypatch.setitem(MODELS, ("cnn", "float64"), lambda: ConvNet((8, 8, 1), 5, width=4, blocks=(), dtype="float64"))
    (state, _), trainer = next(enclosed_steps(case.model(), case.data(), case.options(), 1)), case.trainer("cpu")
    monkeypatch.setattr(models.cnn.batch_norm, "EPSILON", 1.01e-5)
    trainer.train_step()
    with pytest.raises(OutsideError):
        within(state, case.arrays(trainer))


def test_moments_below_the_least_normal_number_are_kept(cupy):
    """Small gradients have such squares. CuPy's own kernels would replace them by zero; NumPy does not."""
    expected = plain_answer(MPI.COMM_SELF, "nmt", "lamb", {"device": "cuda"})
    assert answer("nmt", "lamb", MPI.COMM_SELF, device="cuda") == expected
