"""A user's model or data that lie on one rank: every rank ends with the same words, and none with other numbers."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from toys import Lying, Meddled, Toy, last, make_options, named, refusal, toy_data

from models import Batch, Variable
from refimpl.training.evaluate import evaluate
from refimpl.training.run.whole import hashes
from refimpl.training.trainer import Trainer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]

OVERLAP = pytest.mark.parametrize("overlap", [False, pytest.param(True, marks=pytest.mark.thorough)],
                                  ids=["sequential", "overlapped"])


def options_of(overlap, **changes):
    return make_options("toy", "adagrad", **{"device": "cpu", "overlap": overlap, **changes})


def refused(comm, overlap, model=None, data=None, steps=2, **changes):
    """Return what a training of two steps ends with on every rank."""

    def work():
        trainer = Trainer.open(model or Toy(), data or toy_data(), options_of(overlap, **changes), comm)
        for _ in range(steps):
            trainer.train_step()

    return refusal(comm, work)


def write_later(given):
    given.kept.append(given.dense["weight"])
    given.kept[0][0] = 1 if len(given.kept) > 1 else given.kept[0][0]


WRITES = {
    "a dense value": lambda given: given.dense["weight"].__setitem__(0, 1),
    "a scalar": lambda given: given.dense["scale"].__setitem__((), 2),
    "rows": lambda given: given.rows["table"].__imul__(2),
    "out=": lambda given: np.negative(given.rows["rare"], out=given.rows["rare"]),
    "inputs": lambda given: given.batch.inputs.sort(),
    "targets": lambda given: given.batch.targets.fill(0),
    "the flag": lambda given: given.dense["weight"].setflags(write=True),
    "the base's flag": lambda given: given.dense["bias"].base.__setitem__(0, 1.0),
    "what was kept": write_later,
}


@OVERLAP
def test_writes_are_refused_where_they_are_written(comm, overlap):
    for write in WRITES.values():
        said = refused(comm, overlap, Lying(last(comm), write))
        assert said.startswith(f"{named(comm)}Lying.loss_and_gradients writes to an array that it may only read"), said
        assert "at test_lies_mpi.py:" in said and "change a copy, np.array(...)" in said


def test_rows_needed_and_evaluate_may_not_write_either(comm):
    sort = lambda model, batch, found: batch.inputs.sort()  # noqa: E731
    said = refused(comm, False, Lying(last(comm), needs=sort))
    assert said.startswith(f"{named(comm)}Lying.rows_needed writes to") and ": sort = lambda" in said
    model = Toy()
    trainer = Trainer.open(model, toy_data(), options_of(False), comm)
    honest = evaluate(trainer, toy_data())["loss"]
    model.evaluate = lambda dense, tables, batch: tables["table"].fill(0)
    assert "Toy.evaluate writes to" in refusal(comm, lambda: evaluate(trainer, toy_data()))
    del model.evaluate
    assert evaluate(trainer, toy_data())["loss"] == honest


@OVERLAP
@pytest.mark.parametrize("what, culprit", [
    (lambda given: given.dense["weight"], "dense['weight']"), (lambda given: given.rows["table"], "rows['table']"),
    (lambda given: given.batch.targets, "batch.targets")], ids=["dense", "rows", "targets"])
def test_writes_past_a_read_only_view_are_seen(comm, overlap, what, culprit):
    """np.add.at asks no flag (NumPy 2.4), nor does PyTorch: a session's first step compares."""
    said = refused(comm, overlap, Lying(last(comm), lambda given: np.add.at(what(given), (0, 0), 1)))
    assert said.startswith(f"{named(comm)}Lying.loss_and_gradients has written to {culprit} in microbatch "), said


@OVERLAP
@pytest.mark.thorough("sequential")
@pytest.mark.usefixtures("cupy")
def test_writes_on_a_device_are_seen(comm, overlap):
    """CuPy's arrays cannot be read-only."""
    for what, culprit in ((lambda given: given.dense["weight"], "dense['weight']"),
                          (lambda given: given.rows["table"], "rows['table']")):
        said = refused(comm, overlap, Lying(last(comm), lambda given: what(given).__iadd__(1)), device="cuda")
        assert said.startswith(f"{named(comm)}Lying.loss_and_gradients has written to {culprit} in microbatch "), said


class Honest(Toy):
    """The toy, as others would write it: lists and NumPy's types, scalars, buffers used again, read-only gradients."""

    def __init__(self):
        super().__init__()
        self.variables = [Variable(v.name, list(v.shape), v.sparse, v.initial, np.float32, np.bool_(v.decays),
                                   v.clipped, v.statistic) for v in self.variables]
        self.buffer = np.empty((3, 4), np.float32)

    def loss_and_gradients(self, dense, rows, batch):
        loss, found = super().loss_and_gradients(dense, rows, batch)
        self.buffer[:] = found["weight"]
        found["bias"].flags.writeable = False
        return np.asarray(loss), {**found, "weight": self.buffer, "scale": np.float32(found["scale"]),
                                  "mean": np.asfortranarray(found["mean"])}


def hash_of(comm, model, data, overlap):
    trainer = Trainer.open(model, data, options_of(overlap), comm)
    for _ in range(3):
        trainer.train_step()
    return hashes(trainer.parameters)["parameters_sha256"]


@OVERLAP
@pytest.mark.thorough("overlapped")
def test_honest_models_and_data_of_every_shape(comm, overlap):
    right = hash_of(comm, Toy(), toy_data(), overlap)
    assert hash_of(comm, Honest(), toy_data(), overlap) == right
    for change in (lambda batch: replace(batch, weights=np.ones(len(batch.targets))),
                   lambda batch: replace(batch, targets=list(batch.targets)),
                   lambda batch: Batch(batch.inputs, batch.targets, None, np.int64(batch.normaliser))):
        data = Meddled(True, lambda step, index, batch, change=change: change(batch))
        assert hash_of(comm, Toy(), data, overlap) == right


@pytest.mark.parametrize("since, targets", [(0, 24), (1, 4)])
def test_targets_that_are_others_on_rank_0(comm, since, targets):
    """No rank sees by itself what another leaves out: all count together."""
    for meddle, more, words in (
            (lambda step, index, batch: None if index == 0 else batch, 0, "of which 0"),
            (lambda step, index, batch: replace(batch, normaliser=batch.normaliser + 1), 1, "in ")):
        said = refused(comm, False, data=Meddled(comm.rank == 0, meddle, examples=more, since=since))
        assert said.startswith(f"the microbatches of step {since} do not hold the targets") and "rank 0: " in said
        assert words in said and f"where examples({since}) says {targets + more}" in said


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("who", [0, -1])
def test_an_epoch_that_starts_on_one_rank(comm, who):
    data, who = toy_data(), who % comm.size
    starts = data.starts_epoch
    data.starts_epoch = lambda step: starts(step) != (comm.rank == who and step == 3)
    said = refused(comm, False, data=data, steps=5)
    others = [str(rank) for rank in range(comm.size) if rank != who]
    told = {starts(3): f"rank{'s' * (len(others) > 1)} {' '.join(others)}", not starts(3): f"rank {who}"}
    assert said == (f"the data's starts_epoch(3) says True on {told[True]} and False on {told[False]}: it must be a "
                    "function of the step alone")


@pytest.mark.mpi(min_size=2)
def test_initial_values_that_depend_on_the_rank(comm):
    model = Toy()
    model.variables[1] = replace(model.variables[1], initial=SimpleNamespace(
        elements=lambda key, start, count: np.full(count, float(last(comm)))))
    said = refused(comm, False, model)
    assert said.startswith("the ranks disagree: the beginning of variable weight is ")
    assert f"on rank {comm.size - 1}" in said
