"""The stored golden traces are what the product computes: recorded again, and replayed from their local gradients.

Another processor's BLAS may round the models' matrix products otherwise: then what microbatches compute is held within
the bound of the check. Everything from the stored local gradients on is held to the bit, on any processor.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from models import Variable
from models.golden import MICROBATCHES, STEPS
from models.registry import entry_of
from refimpl.cli import main
from refimpl.conformance.adapters.ours_training import GivenData, GivenGradients
from refimpl.conformance.case import Rows
from refimpl.conformance.traces.check import judge_trace
from refimpl.conformance.traces.format import PRECISIONS, Trace, read_trace
from refimpl.conformance.traces.golden import FOLDER, NAMES, golden
from refimpl.conformance.traces.record import RecordingTrainer, options_of, record, record_steps, started_from

COMPUTED = ("inputs", "carried", "local")


def variables_of(trace: Trace) -> list:
    """Return the variables that a golden trace describes."""
    return [Variable(v["name"], tuple(v["shape"]), sparse=v["sparse"], statistic=v["statistic"], dtype=trace.precision)
            for v in trace.head["variables"]]


def differing(found: Trace, stored: Trace, stages=None) -> list:
    """Return the places whose bits differ."""
    assert found.arrays.keys() == stored.arrays.keys()
    return [place for place, array in stored.arrays.items() if (stages is None or place[0] in stages)
            and array.tobytes() != found.arrays[place].tobytes()]


def hold(found: Trace, stored: Trace):
    """Hold a new recording against the stored one: to the bit, or within bounds where BLAS computes otherwise."""
    if not differing(found, stored, COMPUTED):
        assert not differing(found, stored) and json.loads(json.dumps(found.head)) == stored.head
        return
    for place, array in stored.arrays.items():
        if place[0] == "inputs":
            np.testing.assert_allclose(found.arrays[place], array, rtol=1e-13)
    found.head["edition"] = stored.head["edition"]
    assert not judge_trace(found).failed


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thorough("vgg-float32", "nmt-float32")  # of lm the command records both, below
def test_recorded_again(name, precision):
    hold(record(name, entry_of(name).golden, precision), golden(name, precision))


@pytest.mark.thorough
def test_the_comparison_sees_a_changed_bit_and_bounds_another_blas():
    stored = golden("lm", "float32")
    for place, size, fails in ((("local", 1, 0, "lstm0/kernel", "value"), 1e-9, False),
                               (("local", 1, 0, "lstm0/kernel", "value"), 1e-5, True),
                               (("parameters", 1, None, "embedding", "value"), 1e-7, True)):
        found = Trace(dict(stored.head), {p: a.copy() for p, a in stored.arrays.items()})
        found.arrays[place].reshape(-1)[5] += np.float32(size)
        if place[0] == "local" and not fails:  # the rest of that training would follow; its own sums do not hold bits
            found = found.only(("inputs", "carried", "local", "start", "metrics", "state", "parameters"))
            assert not judge_trace(found).failed
        else:
            with pytest.raises(AssertionError):
                hold(found, stored)


def test_the_command_writes_the_same_files(tmp_path, capsys):
    assert main(["conformance", "regenerate", "lm", "--out", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.split()) == 4
    stored = golden("lm", "float32")
    if not differing(read_trace(tmp_path / "lm-float32.json"), stored):
        for file in tmp_path.iterdir():
            assert file.read_bytes() == (FOLDER / file.name).read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_examples_in_another_order_pass(name):
    """Sums over the examples of a microbatch in another order: other roundings of a right model."""
    stored, model = golden(name, "float32"), entry_of(name).golden.make_model("float32")

    class Turned:
        variables, rows_needed = model.variables, model.rows_needed

        def loss_and_gradients(self, dense, rows, batch):
            turn = (lambda a: a[::-1].copy()) if name in ("cnn", "vgg") else (lambda a: a[:, ::-1].copy())
            batch.inputs, batch.targets = turn(batch.inputs), turn(batch.targets)
            batch.weights = None if batch.weights is None else turn(batch.weights)
            return model.loss_and_gradients(dense, rows, batch)

    found = record(name, replace(entry_of(name).golden, make_model=lambda dtype: Turned()), "float32")
    found.head["edition"] = stored.head["edition"]
    found = found.only(("local", "aggregated", "metrics", "state", "parameters"))
    assert any(found.arrays[p].tobytes() != stored.arrays[p].tobytes() for p in found.arrays)
    outcome = judge_trace(found)
    assert not outcome.failed
    ratios = [f.worst_ratio for v in outcome.verdicts if v.stage in ("local", "training") for f in v.findings]
    assert 0 < max(ratios) < 0.5  # with a margin


def replayed(name, precision, comm=None, **options):
    """Return what our trainer makes of the stored local gradients."""
    stored = golden(name, precision)
    variables = started_from(variables_of(stored), stored)
    given = [{m: ({v.name: stored.get("local", s, v.name, m) for v in variables}, 0.0) for m in range(MICROBATCHES)
              if stored.get("local", s, variables[0].name, m) is not None} for s in range(STEPS)]
    trainer = RecordingTrainer.open(GivenGradients(variables), GivenData(given, MICROBATCHES),
                                    replace(options_of(entry_of(name).golden), **options), comm)
    record_steps(found := Trace(dict(stored.head)), trainer, STEPS)
    return found


def hold_replay(found: Trace, stored: Trace, stages):
    for place, array in stored.arrays.items():
        if place[0] in stages or place[0] == "metrics" and place[3] == "gradient_norm":
            assert array.tobytes() == found.arrays[place].tobytes(), place


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", NAMES)
def test_replayed_to_the_bit(name, precision):
    stored = golden(name, precision)
    found = replayed(name, precision)
    hold_replay(found, stored, ("aggregated", "state", "parameters"))
    slot = "velocity" if name in ("cnn", "vgg") else "accumulator"
    found.arrays["state", 3, None, stored.head["variables"][0]["name"], slot] += 1
    with pytest.raises(AssertionError):
        hold_replay(found, stored, ("state",))


@pytest.mark.mpi
@pytest.mark.ranks(3)
@pytest.mark.parametrize("architecture", ["hybrid", "allreduce", "ps"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.thorough("lm", "hybrid")
def test_replayed_to_the_bit_on_any_number_of_ranks(name, architecture):
    from mpi4py import MPI

    comm, stored = MPI.COMM_WORLD, golden(name, "float32")
    if comm.size > 5:
        pytest.skip("five microbatches: at most five ranks")
    found = replayed(name, "float32", comm, architecture=architecture)
    hold_replay(found, stored, ("state", "parameters"))
    for step in range(4):
        for v in stored.head["variables"]:
            sums = (trace.get("aggregated", step, v["name"]) for trace in (found, stored))
            _hold_sum(comm, *sums, architecture)


def _hold_sum(comm, mine, whole, architecture):
    """Hold the rows that this rank owns, all rows together, and dense sums where every rank has them."""
    if isinstance(whole, Rows):
        place = np.searchsorted(whole.ids, mine.ids)
        assert np.array_equal(whole.ids[place], mine.ids) and mine.rows.tobytes() == whole.rows[place].tobytes()
        assert np.array_equal(np.unique(np.concatenate(comm.allgather(mine.ids))), whole.ids)
    elif architecture != "ps":
        assert mine.tobytes() == whole.tobytes()


def test_the_comparison_of_sums_over_ranks_sees_a_row_that_is_wrong_or_missing():
    class Alone:
        allgather = staticmethod(lambda x: [x])

    whole = golden("lm", "float32").get("aggregated", 0, "embedding")
    _hold_sum(Alone, whole, whole, "hybrid")
    for mine in (Rows(whole.ids, whole.rows * np.float32(2)), Rows(whole.ids[1:], whole.rows[1:]),
                 Rows(whole.ids + (whole.ids == 49), whole.rows[::-1])):
        with pytest.raises((AssertionError, IndexError)):
            _hold_sum(Alone, mine, whole, "hybrid")
