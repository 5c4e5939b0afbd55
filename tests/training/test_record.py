"""Records of trainings without barriers: their size, what is refused of them, and what options are."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from test_flight import WORKERS, go_on, made, prepared

from refimpl.training.consistency.served.record import (
    NAME, Record, RecordedRun, check_possible, entries_of, read_record, write_record,
)
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.training.slow import Slowed, slowed
from refimpl.transport import CollectiveError, Communicator

STEPS = 5


def recorded(case="asynchronous", seed=0):
    """Return the record of a training whose letters came in a random order."""
    ranks, boxes = made(*prepared(case))
    go_on(ranks, boxes, np.random.default_rng(seed))
    return Record([entries_of(rank.owner.record, WORKERS) for rank in ranks], "f" * 64)


def test_its_size_is_a_formula(tmp_path):
    """N (2 steps + 1) bytes an owner, and a header."""
    record = recorded()
    assert [entries.nbytes for entries in record.entries] == [WORKERS * (2 * STEPS + 1)] * WORKERS
    write_record(tmp_path, record)
    header = 8 + int.from_bytes((tmp_path / NAME).read_bytes()[:8], "little")
    assert (tmp_path / NAME).stat().st_size == header + WORKERS * WORKERS * (2 * STEPS + 1)
    assert entries_of([300], 301).dtype == np.uint16
    again = read_record(tmp_path)
    assert again.digest == record.digest and all(map(np.array_equal, again.entries, record.entries))


def changed(record, owner, entries):
    return replace(record, entries=[*record.entries[:owner], np.array(entries, np.uint8), *record.entries[owner + 1:]])


@pytest.mark.parametrize("case", ["asynchronous", "bounded:1", "backup:1"])
def test_what_no_training_left_is_refused(case):
    record, text = recorded(case), case
    check_possible(record, text, STEPS)
    first = record.entries[0].tolist()
    for entries, words in (
            (first[:-1], "owner|it is cut"),
            ([9, *first], "there is no worker 9, only 3"),
            (first[:1] * 2 + first, "not of a training"),
            (first + first[-1:], f"owner 0, entry {len(first)}: worker {first[-1]} had finished")):
        with pytest.raises(ValueError, match=words):
            check_possible(changed(record, 0, entries), text, STEPS)
    with pytest.raises(ValueError, match="not of a training|ends before"):
        check_possible(record, text, STEPS + 1)


def test_who_went_too_far_ahead_is_refused():
    record = recorded("asynchronous", seed=1)
    alone = [0] * (2 * STEPS + 1) + [1] * (2 * STEPS + 1) + [2] * (2 * STEPS + 1)
    check_possible(replace(record, entries=[np.array(alone, np.uint8)] * WORKERS), "asynchronous", STEPS)
    with pytest.raises(ValueError, match="owner 0, entry 4: worker 0 pulls, but bounded:1 lets it wait"):
        check_possible(replace(record, entries=[np.array(alone, np.uint8)] * WORKERS), "bounded:1", STEPS)


@pytest.mark.parametrize("damage", ["cut", "a byte", "swapped", "none", "no record"])
def test_a_damaged_file_is_refused_in_words(tmp_path, damage):
    record = recorded()
    write_record(tmp_path, record)
    path, content = tmp_path / NAME, (tmp_path / NAME).read_bytes()
    if damage == "cut":
        path.write_bytes(content[:-3])
    elif damage == "a byte":
        path.write_bytes(content[:-7] + bytes([content[-7] ^ 1]) + content[-6:])
    elif damage == "swapped":
        write_record(tmp_path / "..", replace(record, entries=record.entries[::-1]))
        shutil.move(tmp_path / ".." / NAME, path)
        other, header = path.read_bytes(), 8 + int.from_bytes(content[:8], "little")
        path.write_bytes(content[:header] + other[-len(content) + header:])
    elif damage == "none":
        path.unlink()
    else:
        path.write_bytes(b"no record")
    with pytest.raises(ValueError, match="holds no record" if damage == "none" else "is damaged"):
        read_record(tmp_path)


def toy_run(tmp_path, **more):
    from models.recipe import build, recipe_of

    recipe, chosen = recipe_of("lm", {"data": "synthetic", "preset": "tiny", "window": 4, "microbatch_size": 2,
                                      "steps": 3, "architecture": "ps", "consistency": "asynchronous",
                                      "clip_norm": None})
    options = Options(**{**chosen, **more})
    model, data, _ = build(recipe, options.seed)
    result = train(model, data, options=options, comm=Communicator.alone(), output=tmp_path / "run",
                   describe=recipe.to_json())
    return model, data, result


def test_a_replay_that_ends_otherwise_is_refused(tmp_path):
    model, data, result = toy_run(tmp_path)
    comm, run = Communicator.alone(), RecordedRun.read(tmp_path / "run")
    again = train(model, data, options=run.options_on(comm), comm=comm, replay=run)
    assert (again.parameters_sha256, again.state_sha256) == (result.parameters_sha256, result.state_sha256)
    other = replace(run, options=replace(run.options, learning_rate=0.3))
    with pytest.raises(CollectiveError, match=f"ended with {result.parameters_sha256[:12]}….*options differ"):
        train(model, data, options=other.options_on(comm), comm=comm, replay=other)
    with pytest.raises(CollectiveError, match="the training finished at step 3;"):
        train(model, data, options=replace(run.options, steps=4), comm=comm, resume=tmp_path / "run")


def test_a_slow_rank_takes_its_time(monkeypatch):
    class Model:
        variables = ("some",)

        def loss_and_gradients(self, dense, rows, batch):
            return 1.5, {}

    clock, slept = iter([10.0, 10.25]), []
    monkeypatch.setattr("time.process_time", lambda: next(clock))
    monkeypatch.setattr("time.sleep", slept.append)
    options, model = Options(slow_rank={"2": 3.0}), Model()
    assert slowed(model, options, 1) is model
    slow = slowed(model, options, 2)
    assert isinstance(slow, Slowed) and slow.variables == ("some",)
    assert slow.loss_and_gradients(None, None, None) == (1.5, {}) and slept == [0.5]
