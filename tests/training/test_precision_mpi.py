"""Mixed precision equals the plain training; one answer on any number of ranks; steps that all leave out; a resume."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from safetensors.numpy import load_file
from toys import SETTINGS, Toy, answer, answer_of, make_options, make_trainer, refusal, toy_data

from models import Batch, Variable
from models.protocol import unchanged
from refimpl.plain.messages import Messages
from refimpl.plain.training.mixed_precision import LossScale, MixedTraining
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.training.step import precision
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
STEPS, OUTPUTS = 12, 3


class Drawn:
    """Initial values of the plain training."""

    def __init__(self, values):
        self.values = values.reshape(-1).astype(np.float64)

    def elements(self, key, start, count):
        return self.values[start:start + count]


class Net:
    """The model of ``plain.training.mixed_precision``, and its data."""

    half, fingerprint, microbatches, steps_per_epoch = staticmethod(unchanged), "0" * 64, 8, STEPS

    def __init__(self, kind, loud):
        self.plain, self.loud = MixedTraining(Messages(MPI.COMM_SELF), kind, LossScale(), loud), loud
        self.variables = [Variable(f"w{i}", w.shape, initial=Drawn(w)) for i, w in enumerate(self.plain.masters)]

    def rows_needed(self, batch):
        return {}

    def loss_and_gradients(self, dense, rows, batch):
        x, hidden = self.half(batch.inputs), None
        hidden = self.half(np.maximum(x @ dense["w0"], 0))
        y = self.half(hidden @ dense["w1"])
        dy = self.half((y - batch.targets) * np.float32(1 / batch.normaliser))
        return 0.0, {"w1": hidden.T @ dy, "w0": x.T @ (self.half(dy @ dense["w1"].T) * (hidden > 0))}

    def examples(self, step):
        return 4 * self.microbatches

    def starts_epoch(self, step):
        return step == 0

    def microbatch(self, step, v):
        x, target = (self.plain.draw(name, step, v, (4, n)) for name, n in (("x", 6), ("y", OUTPUTS)))
        return Batch(x * np.float32(self.loud if v == 0 else 1), target, None, float(self.examples(step)))


@pytest.mark.parametrize("kind, loud", [("bf16", 1.0), ("fp16", 1.0), ("fp16", 16.0)])
def test_it_equals_the_plain_training_and_leaves_out_the_same_steps(comm, monkeypatch, kind, loud):
    monkeypatch.setattr(precision, "PATIENCE", 3)
    net = Net(kind, loud)
    for overlap in (False, True):
        plain = MixedTraining(Messages(MPI.COMM_SELF), kind, LossScale(), loud)
        options = Options(optimizer="sgd", learning_rate=0.5, precision=kind, overlap=overlap, steps=STEPS)
        trainer, skipped = Trainer.open(net, net, options, comm), 0
        for _ in range(STEPS):
            scale, record = plain.loss_scale.scale, trainer.train_step()
            assert record["loss_scale"] == scale and ("gradient_norm" in record) == plain.step()
            skipped += "gradient_norm" not in record
        for i, w in enumerate(plain.masters):
            assert trainer.parameters.collect(f"w{i}", everyone=True).tobytes() == w.tobytes()
        assert (skipped > 0) == (loud > 1) and skipped < STEPS


@pytest.mark.parametrize("work, optimizer", [("toy", "lamb"), ("lm", "adam"), ("cnn", "momentum")])
@pytest.mark.thorough("cnn", "lm")
def test_one_answer_by_every_way_and_a_power_of_two_moves_no_bit(comm, monkeypatch, work, optimizer):
    found = set()
    for way, scale in zip([*SETTINGS.values(), dict(codec={"dense": "bf16"}), dict(overlap=True)], (0, 3, 9) * 3):
        monkeypatch.setattr(precision, "LossScale", lambda patience: LossScale(2.0**scale, patience=patience))
        if "codec" not in way:
            found.add(answer(work, optimizer, comm, precision="bf16", **way))
    assert len(found) == 1 and found != {answer(work, optimizer, comm)}
    assert found == {answer(work, optimizer, MPI.COMM_SELF, precision="bf16")}


def test_an_encoded_sum_that_overflows_is_left_out_too(comm):
    trainer = make_trainer("toy", "sgd", comm, precision="fp16", codec={"dense": "fp16", "sparse": "fp16"})
    trainer.mixed.loss_scale.scale = 2.0**40
    assert "gradient_norm" not in trainer.train_step() and trainer.mixed.loss_scale.scale == 2.0**39


def test_scale_and_good_steps_are_in_the_checkpoint(comm, tmp_path, monkeypatch):
    monkeypatch.setattr(precision, "PATIENCE", 3)
    path = comm.bcast(tmp_path)
    options = make_options("toy", "adam", precision="fp16", steps=5)
    whole = Trainer.open(Toy(), toy_data(), options, comm)
    end = answer_of(whole, 5)
    train(Toy(), toy_data(), comm=comm, output=path / "run", options=replace(options, steps=2))
    alone = MPI.COMM_SELF
    own = tmp_path / f"resumed-{comm.rank}"
    result = train(Toy(), toy_data(), comm=alone, resume=path / "run", output=own, options=options)
    [(key, state)] = whole.common().items()
    assert result.parameters_sha256 == end[2] and state.tolist() != [2.0**16, 0]
    assert load_file(own / "checkpoint-5.safetensors")[key].tolist() == state.tolist()
    message = refusal(alone, lambda: train(Toy(), toy_data(), comm=alone, resume=path / "run",
                                           options=replace(options, precision="bf16")))
    assert "precision was fp16 and is now bf16" in message
