"""What a model and data of one's own may not say. That all ranks then end with the same words: test_failures_mpi.py."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from framework_toys import values_of
from toys import Lying, Meddled, toy_data

from kernels import RowGradient
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.model import CheckedModel


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
    "rows not asked for": (changed("rare", lambda g: RowGradient(np.arange(9), np.ones((9, 1), np.float32))),
                           "which rows_needed did not name"),
    "None": (lambda model, batch, found: None, "returned NoneType: it must return two things"),
    "gradients alone": (lambda model, batch, found: found[1], "returned dict: it must return two things"),
    "no dict": (lambda model, batch, found: (found[0], None), "returned NoneType as gradients"),
    "a key too many": (lambda model, batch, found: (found[0], {**found[1], 3: 0}), "gradients, which differs in [3]"),
}


def checked(**lies):
    """Return a toy that lies, checked, and two microbatches."""
    return CheckedModel(Lying(**lies)), CheckedData(toy_data()).read(0, 0, {0: {}, 1: {}})[0]


def refused_gradients(after, words):
    """The first microbatch's gradients are refused in these words."""
    model, batches = checked(after=after)
    values = values_of(model, model.needs(batches)[0])
    with pytest.raises(ValueError) as caught:
        model.loss_and_gradients(*values, batches[0])
    assert words in str(caught.value)


def refused_needs(needs, words):
    """The rows that are needed are refused in these words. needs: see ``Lying``."""
    model, batches = checked(needs=needs)
    with pytest.raises(ValueError) as caught:
        model.needs(batches)
    assert words in str(caught.value)


@pytest.mark.parametrize("what", RETURNS)
def test_what_is_no_loss_and_no_gradient(what):
    refused_gradients(*RETURNS[what])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["table", "weight", "scale", "mean"])
def test_a_gradient_that_is_not_finite_names_its_variable(name, bad):
    def spoilt(model, batch, found):
        gradient = found[1][name]
        (gradient.rows if name == "table" else gradient)[(0,) * (0 if name == "scale" else 1)] = bad
        return found

    refused_gradients(spoilt, f"the gradient of {name!r} in microbatch 0 is not finite")


@pytest.mark.parametrize("ids, words", [
    *((np.array([bad]), f"id {bad} is out of range for variable 'table', which has 50 rows (0 to 49)")
      for bad in (-1, 50, 2**31 + 3)),
    (np.array([3, 3]), "sorted and unique"), (np.array([4, 3]), "sorted and unique"),
    (np.array([3, 4], np.int32), "int64"), (np.array([3.0, 4.0]), "int64"), (np.array([[3, 4]]), "int64"),
    ([3, 4], "int64")])
def test_row_numbers_out_of_range_or_of_the_wrong_kind(ids, words):
    refused_needs(lambda model, batch, found: {**found, "table": ids}, words)
    refused_gradients(changed("table", lambda g: RowGradient(ids, np.ones((len(ids), 3), np.float32))), words)


def in_one_buffer(model, batch, found):
    model.kept = model.kept or [np.arange(50)]
    model.kept[0][:len(found["table"])] = found["table"]
    return {**found, "table": model.kept[0][:len(found["table"])]}


@pytest.mark.parametrize("needs, words", [
    (lambda model, batch, found: None, "rows_needed returned NoneType: it must return a dict"),
    (lambda model, batch, found: {**found, 3: 4}, "rows_needed returned [3, 'rare', 'table']"),
    (lambda model, batch, found: {**found, "rare": np.ma.asarray(found["rare"])}, "must be a (k,) int64 array"),
    (in_one_buffer, "rows_needed of 'table' of microbatch 0 has changed while others were read"),
], ids=["nothing", "strange names", "masked", "one buffer"])
def test_what_is_no_need(needs, words):
    refused_needs(needs, words)


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


def step(model, batches):
    """Compute a step's microbatches."""
    needs = model.needs(batches)
    model.forget()
    for v, batch in batches.items():
        model.loss_and_gradients(*values_of(model, needs[v]), batch)
    model.end_step()


@pytest.mark.parametrize("before, after, words", [
    (None, reuse, "the row gradient of 'table' in microbatch 0 "),
    (None, finish_later, "the gradient of 'weight' in microbatch 0 "),
    (lambda given: given.kept.__setitem__(slice(None), [given.rows["rare"]]), hand_on_rows, "shares memory with rows"),
], ids=["used again", "ready too soon", "what was pulled"])
def test_gradients_that_are_not_the_models_own(before, after, words):
    with pytest.raises(ValueError, match=words):
        step(*checked(before=before, after=after))


def test_a_row_gradient_that_is_used_again_in_a_later_step():
    """In every step its ends are looked at."""
    calls = []

    def once_more(model, batch, found):
        calls.append(found[1]["table"])
        if len(calls) == 6:
            calls[-2].rows[...] += 1
        return found

    model, batches = checked(after=once_more)
    step(model, batches)
    step(model, batches)
    with pytest.raises(ValueError, match="the row gradient of 'table' in microbatch 0 was written to after it was ret"):
        step(model, batches)


@pytest.mark.parametrize("step, targets", [(0, 24), (1, 4)])
def test_another_normaliser(step, targets):
    data = Meddled(True, lambda step, index, batch: replace(batch, normaliser=float(len(batch.targets))))
    with pytest.raises(ValueError, match=f"^microbatch 0 of step {step} has normaliser 3.0, .* has {targets} targets"):
        CheckedData(data).read(step, 0, {0: {}})


BUFFER, TIMES = np.empty(3, np.int64), count()


def in_the_buffer(step, index, batch):
    BUFFER[:] = batch.inputs
    return replace(batch, inputs=BUFFER)


@pytest.mark.parametrize("meddle, words", [
    (in_the_buffer, "batch.inputs of microbatch 0 has changed while others were read"),
    (lambda step, index, batch: replace(batch, targets=batch.targets + next(TIMES)), "has changed between two calls"),
    (lambda step, index, batch: batch.inputs, "returned ndarray: it must return a Batch"),
], ids=["one buffer", "others each time", "no batch"])
def test_data_that_are_another_each_time(meddle, words):
    with pytest.raises(ValueError, match=words):
        CheckedData(Meddled(True, meddle)).read(0, 0, {0: {}, 1: {}})
