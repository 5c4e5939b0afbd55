"""A user's model that lies on one rank: every rank ends with the same words, and none with other numbers."""

from dataclasses import replace

import numpy as np
import pytest
from toys import Lying, Meddled, Toy, last, make_options, named, refusal, toy_data

from kernels import RowGradient
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


def reuse(model, batch, found):
    """Return rows of the table in the one buffer that the model has."""
    model.kept = model.kept or [np.empty((50, 3), np.float32)]
    table = found[1]["table"]
    model.kept[0][:len(table)] = table.rows
    return found[0], {**found[1], "table": RowGradient(table.ids, model.kept[0][:len(table)])}


def finish_later(model, batch, found):
    batch.ready({"weight": found[1]["weight"]})
    found[1]["weight"] += 1
    return found


def hand_on_rows(model, batch, found):
    """Return a gradient that is the rows as they were pulled, as weight decay of one's own would."""
    return found[0], {**found[1], "rare": RowGradient(np.unique(batch.inputs % 9), model.kept[0])}


@OVERLAP
@pytest.mark.parametrize("before, after, words", [
    (None, reuse, "the row gradient of 'table' in microbatch "),
    (None, finish_later, "the gradient of 'weight' in microbatch "),
    (lambda given: given.kept.__setitem__(slice(None), [given.rows["rare"]]), hand_on_rows, "shares memory with rows"),
], ids=["used again", "ready too soon", "what was pulled"])
def test_gradients_that_are_not_the_models_own(comm, overlap, before, after, words):
    said = refused(comm, overlap, Lying(last(comm), before, after))
    assert said.startswith(named(comm)) and words in said


def changed(name, change):
    return lambda model, batch, found: (found[0], {**found[1], name: change(found[1][name])})


def with_loss(loss):
    return lambda model, batch, found: (loss, found[1])


RETURNS = {
    "a string": (with_loss("3.5"), "is str: it must be one real number"),
    "nothing": (with_loss(None), "is NoneType: it must be one real number"),
    "a complex number": (with_loss(1j), "is complex"), "a truth": (with_loss(True), "is bool"),
    "NumPy's truth": (with_loss(np.True_), "is bool"),
    "an array of one": (with_loss(np.ones(1)), "is an array of float64 (1,): it must be one real number"),
    "several": (with_loss(np.ones(3)), "is an array of float64 (3,)"), "a list": (with_loss([1.0]), "is list"),
    "a masked number": (with_loss(np.ma.masked), "is MaskedConstant"),
    "an object": (with_loss(np.array(1.0, object)), "is an array of object ()"),
    "a NaN": (with_loss(np.float32("nan")), "the loss of microbatch"),
    "no gradient": (changed("weight", lambda g: None), "the gradient of 'weight' is NoneType"),
    "no rows": (changed("table", lambda g: None), "'table' must be a RowGradient, it is NoneType"),
    "a masked array": (changed("weight", np.ma.asarray), "gradient.filled(0)"),
    "masked rows": (changed("table", lambda g: RowGradient(g.ids, np.ma.asarray(g.rows))), "'table' is MaskedArray"),
    "masked ids": (changed("table", lambda g: RowGradient(np.ma.asarray(g.ids), g.rows)), "int64 array of row numbers"),
    "another shape": (changed("weight", lambda g: g[:2]), "is float32 (2, 4), not float32"),
    "a whole table": (changed("table", lambda g: np.zeros((50, 3), np.float32)), "must be a RowGradient"),
    "rows of no table": (lambda model, batch, found: (found[0], {**found[1], "weight": found[1]["table"]}), "an array"),
    "a key too few": (lambda model, batch, found: (found[0], {k: found[1][k] for k in found[1] if k != "bias"}),
                      "the wrong set of gradients, which differs in ['bias']"),
    "objects": (changed("weight", lambda g: g.astype(object)), "is object (3, 4), not float32"),
    "a matrix": (changed("weight", np.asmatrix), "is matrix: it must be a plain array"),
    "lists": (changed("weight", lambda g: g.tolist()), "is list: it must be a plain array"),
    "a Python number": (changed("scale", float), "np.asarray(gradient, 'float32')"),
    "double precision": (changed("scale", np.float64), "is float64 (), not float32 ()"),
    "other bytes": (changed("weight", lambda g: g.astype(">f4")), "is >f4 (3, 4), not float32"),
    "too few rows": (changed("table", lambda g: RowGradient(g.ids, g.rows[1:])), "'table' is float32 ("),
    "None": (lambda model, batch, found: None, "returned NoneType: it must return two things"),
    "gradients alone": (lambda model, batch, found: found[1], "returned dict: it must return two things"),
    "no dict": (lambda model, batch, found: (found[0], None), "returned NoneType as gradients"),
    "a key too many": (lambda model, batch, found: (found[0], {**found[1], 3: 0}), "gradients, which differs in [3]"),
}


@OVERLAP
@pytest.mark.thorough("sequential")
def test_what_is_no_loss_and_no_gradient(comm, overlap):
    for after, words in RETURNS.values():
        said = refused(comm, overlap, Lying(last(comm), after=after))
        assert said.startswith(named(comm)) and words in said, said


@OVERLAP
def test_gradients_of_rows_that_nobody_asked_for(comm, overlap):
    few = lambda model, batch, found: {**found, "table": found["table"][1:]}  # noqa: E731
    many = changed("rare", lambda g: RowGradient(np.arange(9), np.ones((9, 1), np.float32)))
    found = refused(comm, overlap, Lying(last(comm), after=many))
    assert "the gradient of 'rare' has row " in found and "which rows_needed did not name" in found
    model = Lying(last(comm), needs=few)
    model.before = lambda given: given.rows.__getitem__("table")  # the toy then reads one row for another
    model.loss_and_gradients = lambda dense, rows, batch: (0.0, {
        v.name: RowGradient(Toy.rows_needed(model, batch)[v.name], np.ones((
            len(Toy.rows_needed(model, batch)[v.name]), v.shape[1]), np.float32)) if v.sparse
        else np.zeros(v.shape, np.float32) for v in model.variables})
    assert "the gradient of 'table' has row " in refused(comm, overlap, model)


@pytest.mark.parametrize("needs, words", [
    (lambda model, batch, found: None, "rows_needed returned NoneType: it must return a dict"),
    (lambda model, batch, found: {**found, 3: 4}, "rows_needed returned [3, 'rare', 'table']"),
    (lambda model, batch, found: {**found, "rare": np.ma.asarray(found["rare"])}, "must be a (k,) int64 array"),
], ids=["nothing", "strange names", "masked"])
def test_what_is_no_need(comm, needs, words):
    assert words in refused(comm, False, Lying(last(comm), needs=needs))


@OVERLAP
def test_a_row_gradient_that_is_used_again_in_a_later_step(comm, overlap):
    """In every step its ends are looked at."""
    calls = []

    def once_more(model, batch, found):
        calls.append(found[1]["table"])
        if len(calls) > 20:
            calls[-2].rows[...] += 1
        return found

    said = refused(comm, overlap, Lying(last(comm), after=once_more), steps=60)
    assert said.startswith(f"{named(comm)}the row gradient of 'table' in microbatch ") and "written to after" in said


def test_needs_in_one_buffer(comm):
    def needs(model, batch, found):
        model.kept = model.kept or [np.arange(50)]
        model.kept[0][:len(found["table"])] = found["table"]
        return {**found, "table": model.kept[0][:len(found["table"])]}

    assert "rows_needed of 'table' of microbatch" in refused(comm, False, Lying(last(comm), needs=needs))


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
    return hashes(trainer.parameters, ())["parameters_sha256"]


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
