"""Replay: offsets, ids, shapes, and what a recording holds."""

from dataclasses import replace

import numpy as np
import pytest

from kernels import RowGradient
from kernels.random import key_of
from models import Batch, Variable
from models.workload import Workload
from refimpl.experiments.replay import ReplayData, ReplayModel, measure_profile, record_entry
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.model import CheckedModel

LM = Workload("tiny", "lm", dict(vocabulary=60, embedding=4, hidden=6, projection=3, layers=1, samples=9, keep=0.9),
              dict(streams=2, window=5))
CNN = Workload("tiny-cnn", "cnn", dict(width=2, blocks=(1, 1), augment=False), dict(images=2, image_size=8))


class Clock:
    """In the place of the module ``time``: a clock that only sleeping and models move on."""

    def __init__(self):
        self.now, self.slept = 0.0, []

    def perf_counter(self):
        return self.now

    thread_time = perf_counter

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Ticking:
    """A model that reads a at 1, b at 3, has w ready at 6, ends at 10."""

    variables = [Variable("a", (9, 2), sparse=True), Variable("b", (3,)), Variable("w", (2, 2))]

    def __init__(self, clock):
        self.clock = clock

    def rows_needed(self, batch):
        return {"a": np.array([1, 4], np.int64)}

    def loss_and_gradients(self, dense, rows, batch):
        self.clock.now = 1.0
        rows["a"], rows["a"]
        self.clock.now = 3.0
        dense["b"]
        self.clock.now = 6.0
        gradients = {"w": np.ones((2, 2), np.float32)}
        batch.ready(gradients)
        batch.ready(gradients)
        self.clock.now = 10.0
        gradients |= {"a": RowGradient(np.array([4], np.int64), np.ones((1, 2), np.float32)),
                      "b": np.ones(3, np.float32)}
        return 2.5, gradients


@pytest.fixture
def clock(monkeypatch):
    """The clock of a replay."""
    monkeypatch.setattr("refimpl.experiments.replay.time", clock := Clock())
    return clock


def recorded(clock):
    """Return the entry of Ticking's microbatch and the arrays of ids; the clock begins again."""
    model, arrays = Ticking(clock), []
    values = {"a": np.zeros((2, 2))}, {"b": np.zeros(3), "w": np.zeros((2, 2))}
    entry = record_entry(model, values[1], values[0], Batch(None, None),
                         lambda ids: arrays.append(ids) or len(arrays) - 1)
    clock.now = 0.0
    return entry, arrays


def test_a_recording_says_what_was_read_and_ready_when(clock):
    entry, arrays = recorded(clock)
    assert entry.events == ((1.0, "read", ["a"]), (3.0, "read", ["b"]), (6.0, "ready", ["w"]))
    assert (entry.seconds, entry.loss) == (10.0, 2.5)
    assert arrays[entry.needs["a"]].tolist() == [1, 4] and arrays[entry.gradients["a"]].tolist() == [4]


class Kept:
    """A profile of one microbatch, in memory."""

    def __init__(self, clock):
        entry, self.arrays = recorded(clock)
        self.entries, self.examples = [[entry]], [7]
        self.flat = np.concatenate(self.arrays)

    def ids(self, number):
        return self.arrays[number]


@pytest.mark.parametrize("slowdown", [1.0, 3.0])
def test_a_replay_reads_and_hands_out_at_the_recorded_moments(slowdown, clock):
    model, log = ReplayModel(Ticking.variables, Kept(clock), slowdown), []

    class Waiting(dict):
        def __getitem__(self, name):
            log.append((clock.now, name))
            clock.now += 100 if name == "a" else 0  # the row comes late: everything after it is later
            return 0

    entry = model.profile.entries[0][0]
    batch = Batch(entry, None, ready=lambda gradients: log.append((clock.now, sorted(gradients))))
    loss, gradients = model.loss_and_gradients(Waiting(), Waiting(), batch)
    assert log == [(slowdown * 1, "a"), (100 + slowdown * 3, "b"), (100 + slowdown * 6, ["w"])]
    assert clock.now == 100 + slowdown * 10 and sum(clock.slept) == slowdown * 10
    assert loss == 2.5 and set(gradients) == {"a", "b", "w"}
    assert gradients["a"].ids.tolist() == [4] and gradients["a"].rows.shape == (1, 2)
    assert gradients["w"].shape == (2, 2) and gradients["b"].dtype == np.float32


@pytest.mark.parametrize("workload", [LM, CNN], ids=lambda w: w.name)
def test_a_replayed_microbatch_has_the_real_ones_ids_and_shapes(workload, tmp_path):
    profile = measure_profile(workload, 3, tmp_path / "profile")
    real, data = workload.make_model(), workload.make_data(3)
    replay, replayed = CheckedModel(ReplayModel(real.variables, profile, 0.0)), CheckedData(ReplayData(profile, 3))
    values = {v.name: v.initial_value(0) for v in real.variables}
    state = {}
    for step in range(2):
        batch = replace(data.microbatch(step, 2), key=key_of(0, "microbatch", step, 2), state=state)
        needs = real.rows_needed(batch)
        loss, expected = real.loss_and_gradients(values, {n: values[n][ids] for n, ids in needs.items()}, batch)
        again = replayed.microbatch(step, 2)
        replay.forget()
        found_needs = replay.needs({2: again})[2]
        assert all(np.array_equal(needs[n], found_needs[n]) for n in needs)
        found_loss, found = replay.loss_and_gradients(values, {n: values[n][ids] for n, ids in needs.items()}, again)
        assert found_loss == loss and set(found) == set(expected)
        for v in real.variables:
            if v.sparse:
                assert np.array_equal(found[v.name].ids, expected[v.name].ids)
    assert replayed.examples(0) == data.examples(0)


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    """A profile of two steps of two microbatches."""
    return measure_profile(LM, 2, tmp_path_factory.mktemp("profile"))


def test_equal_ids_are_kept_once_and_read_only(profile):
    entry = profile.entries[0][0]
    assert entry.needs["softmax_weight"] == entry.needs["softmax_bias"] == entry.gradients["softmax_bias"]
    with pytest.raises(ValueError, match="read-only"):
        profile.ids(0)[0] = 1


def test_a_replay_of_more_microbatches_than_were_measured_is_refused(profile):
    with pytest.raises(ValueError, match="has 2 microbatches a step, not 3: measure it for more"):
        ReplayData(profile, 3)


def test_steps_repeat_and_gradients_cannot_be_written(profile):
    data = ReplayData(profile, 2)
    assert data.microbatch(3, 1).inputs is data.microbatch(1, 1).inputs
    model = ReplayModel(LM.make_model().variables, profile, 0.0)
    _, gradients = model.loss_and_gradients({v.name: 0 for v in model.variables}, {v.name: 0 for v in model.variables},
                                            data.microbatch(0, 0))
    with pytest.raises(ValueError, match="read-only"):
        gradients["lstm0/kernel"][...] = 0
