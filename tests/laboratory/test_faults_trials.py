"""Trials are data, drawn from (seed, number); what they do is what they say."""

import json
import random

import pytest

from faults import KINDS, liar
from faults.damage import ARRAY_DAMAGES, JSON_DAMAGES, damage_arrays, damage_json
from faults.files import BASE, DAMAGES, FORGED, POINTERS, prepare
from faults.report import failures, rows_of, write_report
from faults.trial import Outcome, Trial, draw
from faults.workshop import checkpoints_apart
from refimpl.training.run.files import file_sha256
from refimpl.training.run.manifest import digest_of


def test_a_trial_depends_on_seed_and_number_alone():
    trials = [draw(4, number) for number in range(300)]
    assert [draw(4, number) for number in reversed(range(300))] == trials[::-1]
    assert trials[:20] != [draw(5, number) for number in range(20)]
    assert {trial.kind for trial in trials} == set(KINDS)
    assert json.loads(json.dumps([trial.what for trial in trials])) == [trial.what for trial in trials]


@pytest.mark.parametrize("how", sorted({*JSON_DAMAGES, *ARRAY_DAMAGES}))
def test_damage_changes_something_and_is_the_same_again(how):
    from numpy import arange
    from safetensors.numpy import save

    text = json.dumps({"step": 6, "options": {"seed": 0, "rate": "cosine"}, "owners": [0, 1]})
    arrays = save({"carry/0/last": arange(3.0), "parameter/bias": arange(4.0)})
    for damage, content in ((damage_json, text), (damage_arrays, arrays)):
        if how in (JSON_DAMAGES if damage is damage_json else ARRAY_DAMAGES):
            for number in range(20):
                found, done = damage(how, content, random.Random(number))
                assert found != (content.encode() if isinstance(content, str) else content) and done
                assert (found, done) == damage(how, content, random.Random(number))


@pytest.fixture
def base(tmp_path):
    from numpy import arange
    from safetensors.numpy import save_file

    directory = tmp_path / "base"
    directory.mkdir()
    for step in (BASE - 2, BASE):
        save_file({"carry/0/last": arange(3.0), "parameter/bias": arange(4.0)},
                  directory / f"checkpoint-{step}.safetensors")
        (directory / f"checkpoint-{step}.json").write_text(json.dumps(
            {"step": step, "arrays": f"checkpoint-{step}.safetensors", "sha256": ""}))
    (directory / "plan.json").write_text(json.dumps({"placements": [{"variable": "bias", "owners": [0]}]}))
    (directory / "config.json").write_text('{"ranks": 3}')
    (directory / "metrics.jsonl").write_text('{"step": 1}\n{"step": 2}\n')
    return directory


def test_every_damage_can_be_done_to_a_copy(base, tmp_path):
    before = {path.name: path.read_bytes() for path in base.iterdir()}
    what = {"draw": 3, "forged": True, "architecture": "ps", "overlap": False, "shared_memory": True}
    for file, damages in DAMAGES.items():
        for number, damage in enumerate(dict.fromkeys(damages)):
            options, names, done = prepare({**what, "file": file, "damage": damage}, base,
                                           tmp_path / f"{file}-{number}" / "run")
            assert options and names and done
    assert {path.name: path.read_bytes() for path in base.iterdir()} == before
    assert len(POINTERS) > 8


@pytest.mark.parametrize("damage", ["integers", "numbers"])
def test_a_forged_manifest_is_signed_anew_where_its_arrays_can_be_seen_to_be_others(damage, base, tmp_path):
    what = {"file": "arrays", "damage": damage, "draw": 3, "forged": True, "architecture": "ps", "overlap": False,
            "shared_memory": True}
    prepare(what, base, tmp_path / "copy")
    told = json.loads((tmp_path / "copy" / f"checkpoint-{BASE}.json").read_text())
    arrays = tmp_path / "copy" / told["arrays"]
    signed = (told["sha256"], told.get("bytes"), told.get("digest")) == (
        file_sha256(arrays), arrays.stat().st_size, digest_of(told))
    assert signed == (damage in FORGED) == (damage == "integers")


def lying_examples(monkeypatch, lie, step):
    monkeypatch.setenv(liar.LIE, json.dumps({"lie": lie, "where": "examples", "step": step, "rank": None}))
    return liar.draw(3, 4)[0]


def test_who_lies_about_a_step_does_so_after_set_up_and_always(monkeypatch):
    data = lying_examples(monkeypatch, "other examples", 0)
    assert data.examples(0) == 12
    assert data.starts_epoch(0) and data.examples(0) == 13
    assert data.microbatch(0, 0).normaliser == data.examples(0) == data.examples(0) == 13
    assert data.examples(1) == data.microbatch(1, 0).normaliser == 12


def test_each_checkpoint_is_the_newest_of_a_copy(base):
    older, newest = checkpoints_apart(base)
    assert newest == base and not (older / f"checkpoint-{BASE}.json").exists()
    assert (older / f"checkpoint-{BASE - 2}.json").exists() and (base / f"checkpoint-{BASE}.json").exists()


def outcome(number, faults=(), end="refused in words", kind="files"):
    return Outcome(Trial(0, number, kind, {"file": "plan"}), end, list(faults), 1.0 + number, "words")


def test_every_fault_is_counted_once_in_its_column_and_told(tmp_path):
    outcomes = [outcome(1), outcome(2, ["hang"], "hang"), outcome(3, ["silent acceptance"], "silent acceptance"),
                outcome(4, ["traceback", "missing words on 3 of 3 ranks"], "other end"),
                outcome(5, ["leftover: /dev/shm/x"], kind="lies"), outcome(6, ["slow"], kind="lies")]
    assert rows_of(outcomes) == [
        ["files", "4", "1", "0", "0", "0", "1", "1", "1", "1", "0", "0", "3.5", "5.0"],
        ["lies", "2", "2", "0", "0", "0", "0", "0", "0", "0", "1", "1", "6.5", "7.0"],
        ["all", "6", "3", "0", "0", "0", "1", "1", "1", "1", "1", "1", "4.5", "7.0"]]
    assert len(failures(outcomes)) == 5
    text = write_report(tmp_path, outcomes, "make test-faults").read_text()
    assert "Failed: 5" in text and "--seed 0 --only 4`" in text
