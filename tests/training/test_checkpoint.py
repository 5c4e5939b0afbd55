"""Checkpoints: a resumed run is the uninterrupted one; what is cut off, damaged or of another training is refused."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI
from safetensors.numpy import load_file
from toys import WORKS, Toy, make_options, refusal, toy_data

from kernels.update.rates import rate_of
from models import Variable
from refimpl.training.options import MATHEMATICS
from refimpl.training.run import checkpoint
from refimpl.training.run.checkpoint import (
    check_saveable, load_checkpoint, read_manifest, read_parameters, save_checkpoint, steps_saved,
)
from refimpl.training.run.directory import read_metrics
from refimpl.training.run.manifest import digest_of
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import CollectiveError

SELF = MPI.COMM_SELF
OPTIONS = make_options("toy", "adam", steps=6)


class Killed(BaseException):
    """Stands for SIGKILL: no handler for errors may catch it."""


def run(path, options=OPTIONS, **more):
    return train(Toy(), toy_data(), options=options, comm=SELF, output=path, checkpoint_every=1, **more)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A finished run of six steps: (directory, its result)."""
    path = tmp_path_factory.mktemp("saved") / "run"
    return path, run(path)


@pytest.fixture
def copy(saved, tmp_path):
    """A copy of the run's checkpoints, to be damaged."""
    for file in saved[0].glob("checkpoint-*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def test_what_a_checkpoint_holds(saved):
    path, result = saved
    assert steps_saved(path) == [5, 6]
    manifest = read_manifest(path)
    assert manifest.step == 6 and manifest.options == OPTIONS.to_json() and manifest.microbatches == 8
    arrays = load_file(path / "checkpoint-6.safetensors")
    values = read_parameters(path)
    assert list(values) == [v.name for v in Toy().variables]
    assert all(np.array_equal(arrays[f"parameter/{name}"], value) for name, value in values.items())
    assert arrays["parameter/scale"].shape == () and arrays["state/first/empty"].shape == (0, 4)
    for v in Toy().variables:
        keys = [f"parameter/{v.name}"] + [f"state/{slot}/{v.name}" for slot in ("first", "second") if not v.statistic]
        assert all(arrays.pop(key).shape == v.shape for key in keys)
    assert set(arrays) == {f"carry/{v}/last" for v in range(8)}
    assert result.steps == 6


@pytest.mark.parametrize("work, stop", [
    *(("toy", stop) for stop in (1, 2, 3, 5)), *((work, 3) for work in WORKS if work != "toy")])
@pytest.mark.thorough("toy", "lm")
def test_resume_is_bitwise_wherever_it_stops(work, stop, tmp_path):
    model, data, _ = WORKS[work]
    options = make_options(work, "adam", steps=6)
    whole = train(model(), data(), data(), options=options, comm=SELF)
    train(model(), data(), options=replace(options, steps=stop), comm=SELF, output=tmp_path / "run")
    resumed = train(model(), data(), data(), options=options, comm=SELF, output=tmp_path / "run",
                    resume=tmp_path / "run")
    assert (resumed.parameters_sha256, resumed.state_sha256) == (whole.parameters_sha256, whole.state_sha256)
    assert (resumed.loss, resumed.evaluation) == (whole.loss, whole.evaluation)
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]


def test_a_carried_state_is_needed_for_that(saved, copy, monkeypatch):
    """The checker fails if what is carried from step to step is lost: after step 5 an epoch is half done."""
    os.remove(copy / "checkpoint-6.json")
    monkeypatch.setattr("refimpl.training.trainer.Trainer._read", lambda self, read=Trainer._read: (
        self.carried.update({v: {} for v in self.carried}), read(self))[1])
    forgetful = train(Toy(), toy_data(), options=OPTIONS, comm=SELF, resume=copy)
    assert forgetful.parameters_sha256 != saved[1].parameters_sha256


def test_a_run_goes_on_in_another_directory_and_under_another_architecture(saved, copy, tmp_path):
    os.remove(copy / "checkpoint-6.json")
    options = replace(OPTIONS, architecture="ps", partitions=5, scheme="interleaved", allreduce="direct")
    other = run(tmp_path / "other", options, resume=copy)
    assert other.parameters_sha256 == saved[1].parameters_sha256 and steps_saved(tmp_path / "other") == [6]


def test_a_finished_run_is_resumed_to_its_own_end(saved, copy):
    again = train(Toy(), toy_data(), toy_data(), options=OPTIONS, comm=SELF, resume=copy)
    assert again.parameters_sha256 == saved[1].parameters_sha256 and again.evaluation["count"] == 28


def test_more_steps_at_a_constant_rate_go_on(tmp_path):
    constant = replace(OPTIONS, rate="constant", rate_steps=None, steps=2)
    run(tmp_path / "run", replace(constant, rate_steps=2))
    assert run(tmp_path / "run", replace(constant, steps=4, rate_steps=4), resume=tmp_path / "run").steps == 4


CHANGES = {"optimizer": "sgd", "learning_rate": 0.5, "scale_rate": 4, "rate": "linear", "warmup": 1, "rate_steps": 30,
           "clip_norm": None, "weight_decay": 0.5, "optimizer_options": {"beta1": 0.5}, "average_sparse": False,
           "seed": 9, "codec": {"table": "bf16"}, "precision": "bf16"}


def test_every_option_that_changes_numbers_is_tried():
    assert {*CHANGES, "consistency", "correction"} == set(MATHEMATICS)


def test_another_consistency_is_refused(copy):
    options = replace(OPTIONS, device="cpu", architecture="ps", clip_norm=None, consistency="asynchronous",
                      correction="dc-asgd")
    message = refusal(SELF, lambda: train(Toy(), toy_data(), options=options, comm=SELF, resume=copy))
    assert "consistency was synchronous and is now asynchronous; correction was none and is now dc-asgd" in message


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_option_is_refused_by_name(copy, name):
    options = replace(OPTIONS, device="cpu", **{name: CHANGES[name]})
    message = refusal(SELF, lambda: train(Toy(), toy_data(), options=options, comm=SELF, resume=copy))
    assert f"{name} was {getattr(OPTIONS, name)} and is now {CHANGES[name]}" in message
    assert message.count(" was ") == 1


def test_an_option_may_be_changed_where_that_is_asked_for(copy, saved):
    options = replace(OPTIONS, steps=8, learning_rate=0.5, clip_norm=None)
    found = []
    with_both = dict(options=options, comm=SELF, resume=copy, progress=lambda record: found.append(record))
    train(Toy(), toy_data(), change=["learning_rate", "clip_norm"], **with_both)
    assert [record["step"] for record in found] == [7, 8]
    assert found[0]["learning_rate"] / 0.5 == pytest.approx(rate_of(6, base=1, rate="cosine", warmup=2, steps=20))
    for change, words in ([], "say train(..., change=['learning_rate', 'clip_norm'])"), (
            ["learning_rate"], "clip_norm was"), (["seed"], "change names seed: on resume learning_rate, rate, warmup"):
        assert words in refusal(SELF, lambda c=change: train(Toy(), toy_data(), change=c, **with_both))


def test_a_function_as_the_rate_may_be_given_for_more_steps(tmp_path):
    def rated(steps, factor=0.5, **more):
        return run(tmp_path, replace(OPTIONS, steps=steps, rate=lambda step: factor**step, warmup=0, rate_steps=None),
                   **more)

    rated(3)
    assert rated(5, resume=tmp_path).steps == 5
    assert "rate was [1.0, 0.5" in refusal(SELF, lambda: rated(6, 0.25, resume=tmp_path))
    longer = replace(OPTIONS, steps=6, rate=[0.5**step for step in range(5)], warmup=0)
    assert "the rate was given for 5 steps, and the training has 6" in refusal(SELF, lambda: run(
        tmp_path, longer, resume=tmp_path))


def test_the_best_checkpoint_is_kept(tmp_path):
    """Also where the run goes on later, and no longer is better."""
    def rated(steps, **more):
        options = replace(OPTIONS, steps=steps, rate=lambda step: 1.0 if step < 4 else 300.0, warmup=0, rate_steps=None)
        return train(Toy(), toy_data(), toy_data(), options=options, comm=SELF, output=tmp_path, evaluate_every=1,
                     keep_best=True, **more)

    for steps, resume in (5, None), (8, tmp_path):
        rated(steps, resume=resume)
        losses = [line["heldout"]["loss"] for line in read_metrics(tmp_path)]
        assert len(losses) == steps and losses[-1] > min(losses)
        assert steps_saved(tmp_path / "best") == [1 + losses.index(min(losses))] and steps_saved(tmp_path)[-1] == steps
    until = train(Toy(), toy_data(), comm=SELF, options=replace(OPTIONS, steps=steps_saved(tmp_path / "best")[0],
                                                                rate="constant", warmup=0), output=tmp_path / "again")
    values, wanted = read_parameters(tmp_path / "best"), read_parameters(until.run_directory)
    assert all(np.array_equal(values[name], wanted[name]) for name in wanted)
    assert "keep_best keeps the checkpoint with the lowest held-out loss: give held-out data" in refusal(
        SELF, lambda: run(tmp_path / "other", keep_best=True))


def test_other_data_microbatches_or_variables_are_refused_by_name(copy):
    other = Toy()
    other.variables = [Variable("ghost", (2,)), *other.variables]
    for model, data, words in [(Toy(), toy_data(count=29), "data was"), (Toy(rows=51), toy_data(), "variables was"),
                               (Toy(), toy_data(7), "microbatches was 8 and is now 7"), (other, toy_data(), "ghost")]:
        assert words in refusal(SELF, lambda m=model, d=data: train(m, d, options=OPTIONS, comm=SELF, resume=copy))


def edit(signed=True, **changes):
    def damage(path):
        manifest = json.loads(path.read_text())
        for key, value in changes.items():
            manifest.pop(key) if value is None else manifest.update({key: value})
        if signed:  # a digest that is right, of what is wrong
            manifest["digest"] = digest_of(manifest)
        path.write_text(json.dumps(manifest))
    return damage


def arrays_of(path):
    return path.with_suffix(".safetensors")


def flip_one_bit(path):
    content = bytearray(arrays_of(path).read_bytes())
    content[-5] ^= 1
    arrays_of(path).write_bytes(content)


SAID = OPTIONS.to_json()
DAMAGES = {
    "cut off": (lambda path: path.write_text(path.read_text()[:100]), "is damaged"),
    "no format": (edit(format=None), "is damaged: Object missing required field `format`"),
    "an earlier version": (edit(format=1), "has format 1: this version reads format 2"),
    "an unknown field": (edit(colour="red"), "unknown field `colour`"),
    "a field of another type": (edit(step="6"), "Expected `int`, got `str` - at `$.step`"),
    "another step": (edit(step=5), "its name is wrong: it describes step 5 and checkpoint-6.safetensors"),
    "an impossible option": (edit(options={**SAID, "warmup": -1}), "warmup is -1: it must be at least 0"),
    "arrays elsewhere": (edit(arrays="../checkpoint-6.safetensors"), "matching regex"),
    "another array": (edit(holds={"parameter/table": "int64 [50, 3]"}), "table is float32 [50, 3], and its array int"),
    "changed": (edit(False, describe={"model": "lm"}), "was changed after it was written"),
    "one bit": (flip_one_bit, "is damaged: its SHA-256"),
    "longer arrays": (lambda path: os.truncate(arrays_of(path), 1 << 40), "it has 1,099,511,627,776 bytes; at most"),
    "arrays cut off": (lambda path: os.truncate(arrays_of(path), 1000), "is damaged: its SHA-256"),
    "arrays missing": (lambda path: arrays_of(path).unlink(), "is missing"),
    "arrays a pipe": (lambda path: (arrays_of(path).unlink(), os.mkfifo(arrays_of(path))), "it is no plain file"),
    "arrays that do not end": (lambda path: (arrays_of(path).unlink(), arrays_of(path).symlink_to("/dev/zero")),
                               "it is no plain file"),
    "arrays behind a link": (lambda path: arrays_of(path).rename(path.parent.parent / "moved") and
                             arrays_of(path).symlink_to(path.parent.parent / "moved"), "is a link to a file in another folder"),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_damaged_checkpoint_is_refused_by_name(copy, what):
    damage, words = DAMAGES[what]
    damage(copy / "checkpoint-6.json")
    message = refusal(SELF, lambda: train(Toy(), toy_data(), options=OPTIONS, comm=SELF, resume=copy))
    assert words in message
    if "delete" in message:  # the remedy works
        (copy / "checkpoint-6.json").unlink()
        assert train(Toy(), toy_data(), options=OPTIONS, comm=SELF, resume=copy).steps == 6


@pytest.mark.parametrize("describe, words", [
    ({"note": "\ud800"}, "it has half a character"),
    ({1: "a", "1": "b"}, "the field '1' is there more than once"),
])
def test_what_no_checkpoint_could_say_is_refused_before_the_first_step(describe, words, tmp_path):
    trainer = Trainer.open(Toy(), toy_data(), OPTIONS, SELF)
    with pytest.raises(ValueError) as caught:
        check_saveable(trainer, describe)
    assert words in str(caught.value) and "could not be read again" in str(caught.value)
    if "note" in describe:  # the other can not even be compared between ranks
        assert words in refusal(SELF, lambda: run(tmp_path / "run", describe=describe))
        assert not (tmp_path / "run").exists()


def test_no_checkpoint(tmp_path):
    message = refusal(SELF, lambda: train(Toy(), toy_data(), options=OPTIONS, comm=SELF, resume=tmp_path))
    assert f"{tmp_path} holds no checkpoint: give the run directory" in message


def killed_at(monkeypatch, number):
    """Let the number-th change of the file system from now on kill the job before it happens; count them."""
    count = [0]

    def deadly(work, target=None):
        def call(*arguments, **named):
            count[0] += 1
            if count[0] >= number:  # nor does anything happen after it
                raise Killed
            # a write that is cut off leaves half a file
            assert target is None or str(arguments[target]).endswith(".part")
            return work(*arguments, **named)
        return call

    changes = ((os, "replace", None), (os, "fsync", None), (Path, "unlink", None), (checkpoint, "write_pieces", 0),
               (Path, "write_text", 0), (Path, "write_bytes", 0))
    for module, name, target in changes:
        monkeypatch.setattr(module, name, deadly(getattr(module, name), target))
    return count


def test_killed_at_any_moment_of_writing_a_checkpoint_is_loadable(saved, tmp_path, monkeypatch):
    """Before every single change of the file system in turn; what is left resumes to the same end."""
    for number in range(1, 100):
        path = tmp_path / str(number)
        path.mkdir()
        trainer = Trainer.open(Toy(), toy_data(), OPTIONS, SELF)
        for _ in range(3):
            trainer.train_step()
            save_checkpoint(trainer, path, {}, keep=2)
        trainer.train_step()
        with monkeypatch.context() as patched:
            count = killed_at(patched, number)
            try:
                save_checkpoint(trainer, path, {}, keep=2)
            except (Killed, CollectiveError):  # the training that is no more would tell the other ranks
                pass
        resumed = Trainer.open(Toy(), toy_data(), OPTIONS, SELF)
        load_checkpoint(resumed, path)
        assert resumed.step in (3, 4)
        if number in (1, 4, 7, 10) or count[0] < number:
            end = train(Toy(), toy_data(), options=OPTIONS, comm=SELF, resume=path)
            assert end.parameters_sha256 == saved[1].parameters_sha256 and end.state_sha256 == saved[1].state_sha256
        if count[0] < number:  # it was not killed any more
            assert number > 8 and steps_saved(path) == [3, 4] and len(list(path.iterdir())) == 4
            return
    raise AssertionError("more changes than expected")


def test_a_new_run_sweeps_up_after_a_killed_one(tmp_path):
    run(tmp_path / "run", replace(OPTIONS, steps=2))
    for name in (".checkpoint-3.safetensors.77.part", ".tmpA1b2C3"):  # ours, and one that safetensors makes
        (tmp_path / "run" / name).write_text("half a file")
    run(tmp_path / "run", replace(OPTIONS, steps=3), resume=tmp_path / "run")
    assert not list((tmp_path / "run").glob(".*"))
