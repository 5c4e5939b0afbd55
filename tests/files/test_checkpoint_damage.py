"""Whatever befalls a checkpoint's files, it is refused in a sentence with its path, or it is what was written."""

import json

import pytest
from damage import FUZZ, damaged_bytes, damaged_text
from hypothesis import given
from hypothesis import strategies as st
from mpi4py import MPI
from toys import Toy, make_options, toy_data

from models.recipe import Recipe, resumed
from refimpl.json_file import parse_json
from refimpl.training.run.checkpoint import check_fits, load_checkpoint
from refimpl.training.run.files import file_sha256
from refimpl.training.run.manifest import digest_of, read_manifest
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import CollectiveError

OPTIONS = make_options("toy", "adam", steps=2)
RECIPE = Recipe("lm", "shakespeare", sizes={"hidden": 8, "name": "x", "axes": (1, 2)})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of two steps: its directory, manifest and arrays' bytes, and a trainer that could go on with it."""
    path = tmp_path_factory.mktemp("damaged") / "run"
    train(Toy(), toy_data(), options=OPTIONS, comm=MPI.COMM_SELF, output=path, describe=RECIPE.to_json())
    right = json.loads((path / "checkpoint-2.json").read_text())
    arrays = (path / "checkpoint-2.safetensors").read_bytes()
    return path, right, arrays, Trainer.open(Toy(), toy_data(), OPTIONS, MPI.COMM_SELF)


def restored(run):
    """Write the right files again; return their directory and contents."""
    path, right, arrays, _ = run
    (path / "checkpoint-2.json").write_text(json.dumps(right))
    (path / "checkpoint-2.safetensors").write_bytes(arrays)
    return path, right, arrays


def refused(run) -> bool:
    """Return whether the checkpoint is refused, in words that name it; else it must be of this training."""
    path, _, _, trainer = run
    try:
        manifest = read_manifest(path)
    except (ValueError, OSError) as problem:
        assert str(path / "checkpoint-2") in str(problem), repr(problem)
        return True
    try:
        check_fits(manifest, trainer)
        resumed(manifest.describe, {})
    except ValueError as problem:
        assert type(problem) is ValueError and len(str(problem)) > 20
        return True
    load_checkpoint(trainer, path)
    return False


@FUZZ
@given(draw=st.data())
def test_no_damage_to_a_manifest_is_accepted(run, draw):
    path, right, _ = restored(run)
    text = draw.draw(damaged_text(right))
    (path / "checkpoint-2.json").write_bytes(text)
    if not refused(run):  # spaces between tokens, or another order of fields
        assert json.dumps(parse_json(text, dict), sort_keys=True) == json.dumps(right, sort_keys=True)


@FUZZ
@given(draw=st.data())
def test_a_forged_manifest_is_refused_in_a_sentence_or_fits(run, draw):
    """Its digest is right: the fields themselves are looked at."""
    path, right, _ = restored(run)
    text = draw.draw(damaged_text(right))
    try:
        data = json.loads(text)
        data["digest"] = digest_of(data)
        text = json.dumps(data).encode()
    except (ValueError, TypeError, AttributeError, RecursionError):
        pass
    (path / "checkpoint-2.json").write_bytes(text)
    refused(run)


@FUZZ
@given(draw=st.data())
def test_no_damage_to_the_arrays_is_accepted(run, draw):
    path, _, arrays = restored(run)
    content = draw.draw(damaged_bytes(arrays))
    (path / "checkpoint-2.safetensors").write_bytes(content)
    assert refused(run) or content == arrays


@FUZZ
@given(draw=st.data())
def test_forged_arrays_are_refused_in_a_sentence_or_fit(run, draw):
    """Both digests are right: the header is held against the list of arrays. Damage is drawn to the header alone."""
    path, right, arrays, _ = run
    header = 8 + int.from_bytes(arrays[:8], "little")
    file = path / "checkpoint-2.safetensors"
    file.write_bytes(draw.draw(damaged_bytes(arrays[:header])) + arrays[header:])
    forged = {**right, "sha256": file_sha256(file), "bytes": file.stat().st_size}
    (path / "checkpoint-2.json").write_text(json.dumps({**forged, "digest": digest_of(forged)}))
    refused(run)


def test_the_checkpoint_is_accepted_as_it_was_written(run):
    """The checker: what the others refuse is refused for its damage."""
    path, right, _ = restored(run)
    assert not refused(run)
    (path / "checkpoint-2.json").write_text(json.dumps({**right, "microbatches": 9}))
    with pytest.raises(CollectiveError, match="digest does not match"):
        load_checkpoint(run[3], path)


@pytest.mark.parametrize("key, kind, words", [
    ("state/first/table", None, "the checkpoint's state/first/table is missing; this training has float32 [50, 3]"),
    ("carry/8/last", "float32 [3]", "carry/8/last is float32 [3]; this training has no such array"),
    ("spare", "float32 [3]", "spare is float32 [3]; this training has no such array"),
    ("state/first/table", "int32 [50, 3]", "state/first/table is int32 [50, 3]; this training has float32 [50, 3]"),
])
def test_arrays_of_another_training_are_refused(run, key, kind, words):
    manifest = read_manifest(restored(run)[0])
    holds = {name: found for name, found in {**manifest.holds, key: kind}.items() if found}
    with pytest.raises(ValueError) as caught:
        check_fits(type(manifest)(**{name: getattr(manifest, name) for name in manifest.__struct_fields__}
                                  | {"holds": holds}), run[3])
    assert words in str(caught.value)
