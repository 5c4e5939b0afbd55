"""Traces on disk: what is written is read again, and what is damaged or unknown is refused with its name."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from trace_peer import Peer

from refimpl.cli import main
from refimpl.conformance.case import Rows
from refimpl.conformance.traces.format import Trace, edition_of, read_trace, sha256, write_trace
from refimpl.conformance.traces.golden import FOLDER, NAMES, export_trace, golden


@pytest.fixture
def written(tmp_path):
    """A right trace on disk: the path of its manifest."""
    manifest, _ = write_trace(Peer().train(), tmp_path / "theirs")
    return manifest


def edited(manifest, change):
    data = json.loads(manifest.read_text())
    change(data)
    manifest.write_text(json.dumps(data))
    return manifest


def test_round_trip(written):
    trace, read = Peer().train(), read_trace(written)
    assert read.arrays.keys() == trace.arrays.keys() and read.joined_at == "aggregate"
    for place, array in trace.arrays.items():
        assert read.arrays[place].dtype == array.dtype and read.arrays[place].tobytes() == array.tobytes()
    assert read_trace(written.with_suffix(".safetensors")).arrays.keys() == trace.arrays.keys()
    assert sorted(p.name for p in written.parent.iterdir()) == ["theirs.json", "theirs.safetensors"]


def test_scalars_and_strides_keep_their_shape(tmp_path):
    trace = Peer().train(())
    trace.add("metrics", 0, "loss", np.float64(3.5))
    trace.arrays["parameters", 0, None, "lstm0/projection", "value"] = np.arange(72, dtype=np.float32).reshape(6, 12).T
    read = read_trace(write_trace(trace, tmp_path / "odd")[0])
    assert read.get("metrics", 0, "loss").shape == () and read.get("metrics", 0, "loss") == 3.5
    assert read.get("parameters", 0, "lstm0/projection").tolist() == np.arange(72).reshape(6, 12).T.tolist()


def test_the_trace_that_the_page_writes_without_python(tmp_path, capsys):
    export_trace("lm", tmp_path / "begin", "model")
    page = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text("utf-8")
    subprocess.run(["sh", "-e"], input=page.split("```sh\n")[1].split("```")[0], text=True, cwd=tmp_path, check=True)
    assert main(["conformance", "check", str(tmp_path / "mine.json")]) == 0
    assert "1 passed, 0 failed" in capsys.readouterr().out
    trace = read_trace(tmp_path / "mine")
    assert trace.get("metrics", 0, "loss") == golden("lm", "float32").get("metrics", 0, "loss")


@pytest.mark.parametrize("change, words", [
    (lambda d: d.update(format=2), "format 2; this version reads format 1"),
    (lambda d: d.pop("format"), "missing required field `format`"),
    (lambda d: d.pop("edition"), "missing required field `edition`"),
    (lambda d: d.update(precision="float16"), r"Invalid enum value 'float16' - at `\$.precision`"),
    (lambda d: d.update(joined_at="end"), r"Invalid enum value 'end' - at `\$.joined_at`"),
    (lambda d: d["semantics"].update(format=9), "manifest: format 9: this version reads format 1"),
    (lambda d: d["semantics"].update(sparse="median"), "sparse is 'median'"),
    (lambda d: d["arrays"].popitem(), "in the file, not in the manifest"),
    (lambda d: d["arrays"].update(more=next(iter(d["arrays"].values()))), "in the manifest, not in the file"),
    (lambda d: next(iter(d["arrays"].values())).pop("step"),
     r"missing required field `step` - at `\$.arrays.aggregated.step0:"),
    (lambda d: next(iter(d["arrays"].values())).update(stage="middle"),
     r"Invalid enum value 'middle' - at `\$.arrays.*stage`"),
    (lambda d: next(iter(d["arrays"].values())).update(dtype="float64"), "the file has int64"),
    (lambda d: next(iter(d["arrays"].values())).update(sha256="0" * 64), "another SHA-256"),
    (lambda d: d["arrays"]["aggregated.step0:embedding:ids"].update(part="value"), "rows without ids"),
])
def test_manifests_are_refused(written, change, words):
    with pytest.raises(ValueError, match=words):
        read_trace(edited(written, change))


def test_a_changed_number_is_refused(written):
    file = written.with_suffix(".safetensors")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match="another SHA-256"):
        read_trace(written)


def test_damaged_files_are_refused(written):
    file = written.with_suffix(".safetensors")
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(ValueError, match="no safetensors file"):
        read_trace(written)
    written.write_text("{")
    with pytest.raises(ValueError, match="it is not JSON"):
        read_trace(written)


@pytest.mark.parametrize("name", NAMES)
def test_golden_traces_are_small_and_of_one_edition(name):
    files = sorted(FOLDER.glob(f"{name}-*"))
    assert len(files) == 4 and sum(f.stat().st_size for f in files) < 2_000_000
    single, truth = golden(name, "float32"), golden(name, "float64")
    assert single.head["edition"] == truth.head["edition"] == edition_of(single) == edition_of(truth)
    assert single.arrays.keys() == truth.arrays.keys()
    assert single.head["command"] == f"python -m refimpl conformance regenerate {name}"
    samples = {s: [single.get("inputs", s, "samples", m) for m in range(5)] for s in range(4)}
    assert [sum(x is not None for x in samples[s]) for s in range(4)] == [5, 5, 3, 5]


@pytest.mark.parametrize("change", [{"clip": 1.0}, {"rate": 0.5}, {"options": {}}, {"seed": 8}])
def test_another_setting_is_another_edition(change):
    ours = golden("lm", "float32")
    other = Trace({**ours.head, "training": {**ours.head["training"], **change}}, ours.arrays)
    assert edition_of(other) != ours.head["edition"]


def test_hash_is_of_the_bytes_in_the_file():
    assert sha256(np.array([1.0], "<f4")) == "e00e5eb9444182f352323374ef4e08ebcb784725fdd4fd612d7730540b3e0c8c"


def test_exported_stage_holds_what_it_begins_from(tmp_path):
    for stage, holds in (("model", {"inputs", "start"}), ("aggregate", {"local", "start"}),
                         ("update", {"aggregated", "start"})):
        trace = read_trace(export_trace("lm", tmp_path / f"{stage}.json", stage)[0])
        assert {place[0] for place in trace.arrays} == holds and trace.joined_at == stage
    with pytest.raises(ValueError, match="no stage 'end'"):
        export_trace("lm", tmp_path / "x", "end")


class TestCommand:
    def test_export_then_check(self, tmp_path, capsys):
        assert main(["conformance", "export", "cnn", "--out", str(tmp_path / "cnn")]) == 0
        assert (tmp_path / "cnn.safetensors").exists() and "cnn.json" in capsys.readouterr().out
        assert main(["conformance", "check", str(tmp_path / "cnn.json"), "--verbose"]) == 0
        assert "cnn/aggregated" in capsys.readouterr().out

    def test_a_wrong_trace_has_status_1(self, tmp_path, capsys):
        trace = Peer().train()
        g = trace.get("aggregated", 2, "softmax_bias")
        trace.add("aggregated", 2, "softmax_bias", Rows(g.ids, g.rows * 2))
        manifest, _ = write_trace(trace, tmp_path / "wrong")
        page = tmp_path / "page.html"
        assert main(["conformance", "check", str(manifest), "--json", "--html", str(page)]) == 1
        data = json.loads(capsys.readouterr().out)["outcomes"][0]
        assert data["diagnoses"][0]["words"] == "sums are multiplied by 2, of softmax_bias alone"
        assert data["unexpected_failures"] == ["lm/aggregated", "lm/state", "lm/parameters"]
        assert "sums are multiplied by 2, of softmax_bias alone" in page.read_text()

    def test_refusals_have_status_1_and_a_line(self, written, capsys):
        assert main(["conformance", "check", str(edited(written, lambda d: d.update(format=2)))]) == 1
        assert "this version reads format 1" in capsys.readouterr().err
        assert main(["conformance", "check", str(written.with_name("none.json"))]) == 1
        assert main(["conformance", "export", "resnet"]) == 1
        assert "no golden trace 'resnet'; there are cnn, lm" in capsys.readouterr().err
