"""Every JSON file that is read: under drawn damage, it is refused with its path, or holds what its type says."""

import json
import os
from dataclasses import asdict, dataclass
from typing import Annotated, TypedDict

import numpy as np
import pytest
from damage import FUZZ, damaged_bytes, damaged_text
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, Struct

from models import Variable
from models.recipe import Recipe
from models.workload import Workload
from refimpl.collectives.simulation.network import Network, load_network
from refimpl.conformance.report.expected import read_expected
from refimpl.conformance.traces.format import Trace, edition_of, read_trace, write_trace
from refimpl.experiments.bench.gpu import report
from refimpl.experiments.cells.cell import Cell, kept_result
from refimpl.experiments.cluster import ClusterError
from refimpl.experiments.cluster.card import Filed
from refimpl.experiments.replay import Profile
from refimpl.json_file import check_plain, parse_json, read_json, read_plain, shaped
from refimpl.notebook.results import RESULTS, measured_or_stored
from refimpl.pictures.timeline import read_trace as read_timeline
from refimpl.pictures.timeline import spans_of, typical_step
from refimpl.plan import make_plan
from refimpl.plan.plan import Plan
from refimpl.plan.validate import check_plan, read_plan
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.options import Options
from refimpl.training.run.directory import read_metrics, read_result
from refimpl.training.run.timeline import chrome_events
from refimpl.transport.machines import in_blocks

VARIABLES = [Variable("rows", (12, 5), sparse=True), Variable("dense", (8,)), Variable("bias", ())]
MACHINES = in_blocks(4, 2)
CELL = Cell("e", Workload("w", "lm"), "hybrid", 2, 2, "1gbit")
BYTES = {"push": {"rows": {"rows": [20, 30], "indices": [8, 8]}}}
LINE = {"step": 1, "loss": 2.5, "gradient_norm": 1.0, "learning_rate": 0.1, "examples": 8, "seconds": {"compute": 0.1},
        "alpha": {"rows": 0.5}, "heldout": {"loss": 2.5, "count": 3}, "bytes_sent": BYTES, "bytes_received": BYTES}
RESULT = {"architecture": "hybrid", "ranks": 2, "steps": 1, "loss": 2.5, "examples_per_second": 10.5,
          "parameters_sha256": "0" * 64, "state_sha256": "1" * 64, "bytes": {"push": 20}, "alpha": {"rows": 0.5},
          "sent_per_step": {"dense": 1.0, "rows": 2.0}, "seconds": {"compute": 0.1}, "partition_search": None,
          "overlap": "no", "shared_memory": True, "run_directory": "x", "perplexity": 4.5}


def plan_in(path):
    return check_plan(Plan.from_json(read_plan(path)), VARIABLES, 4, 8, MACHINES,
                      consistencies=CONSISTENCIES)


def no_cluster():
    raise ClusterError("nothing is stored")


def stored_in(path, name="here"):
    old = os.getcwd()
    os.chdir(path.parent.parent)
    try:
        return measured_or_stored(name, False, "here", no_cluster)
    finally:
        os.chdir(old)


def write_profile(folder):
    np.save(folder / "ids.npy", np.arange(5))
    entry = {"events": [[0.1, "read", ["rows"]], [0.2, "ready", ["dense"]]], "seconds": 0.3, "loss": 2.5,
             "needs": {"rows": 0}, "gradients": {"rows": 0}}
    return {"format": 1, "workload": CELL.workload.to_json(), "ends": [0, 5], "examples": [8], "entries": [[entry]]}


def write_timeline(folder):
    return {"traceEvents": chrome_events(0, [("compute", 0.0, 1.0, 1, 0), ("push", 0.2, 0.6, 1, 1)], 0.0),
            "displayTimeUnit": "ms"}


def write_small_trace(folder):
    semantics = {"format": 1, "name": "by hand", "dense": "sum", "fusion_bytes": 64, "dtypes": ["float32"]}
    trace = Trace({"trace": "lm", "precision": "float32", "joined_at": "update", "semantics": semantics,
                   "training": {"rate": 0.5}, "variables": []})
    trace.add("aggregated", 0, "w", np.ones(3, np.float32))
    trace.add("parameters", 0, "w", np.zeros((2, 2), np.float32))
    trace.head["edition"] = edition_of(trace)
    return json.loads(write_trace(trace, folder / "small")[0].read_text())


FORMATS = {  # name -> (file, its content or what makes it in a folder, what reads it)
    "plan": ("plan.json", lambda _: make_plan(VARIABLES, "hybrid", 4, 8, machines=MACHINES).to_json(), plan_in),
    "metrics": ("metrics.jsonl", lambda _: LINE, lambda path: read_metrics(path.parent)),
    "result": ("result.json", lambda _: RESULT, lambda path: read_result(path.parent)),
    "network": ("network.json", lambda _: Network(MACHINES, 1e-5, (1e9, 2e9), 1e9).to_dict(),
                lambda path: load_network(path, MACHINES)),
    "timeline": ("trace.json", write_timeline, lambda path: spans_of(typical_step(read_timeline(path)))),
    "trace": ("small.json", write_small_trace, lambda path: read_trace(path).semantics),
    "expected": ("expected.json", lambda _: {"format": 1, "expected": {"dense/*": "why"}},
                 lambda path: read_expected(path).reason("dense/x", 2)),
    "profile": ("profile.json", write_profile, lambda path: Profile(path.parent).mean_seconds),
    "stored": ("here.json", lambda _: {"measured": "today", "found": [1]}, stored_in),
    "account": ("account.json", lambda _: dict.fromkeys(("steps", "formula_steps"), 3)
                | dict.fromkeys(("card", "payload", "formula", "formula_payload"), [1, 2]),
                lambda path: read_json(path, Filed, what="an account", remedy="train again")),
    "tests": ("tests-serial.json", lambda _: {"passed": 3, "failed": 0}, lambda path: report.tests_run(path.parent)),
}


@pytest.fixture(scope="module", params=FORMATS)
def format_(request, tmp_path_factory):
    """A right file of a format: its path, its content, and what reads it."""
    name, make, read = FORMATS[request.param]
    folder = tmp_path_factory.mktemp(request.param) / RESULTS
    folder.mkdir()
    right = json.loads(json.dumps(make(folder)))
    path = folder / name
    path.write_text(json.dumps(right))
    read(path)
    return path, right, read


@FUZZ
@given(draw=st.data())
def test_nothing_but_the_formats_own_error_comes_out(format_, draw):
    path, right, read = format_
    path.write_bytes(draw.draw(damaged_text(right)) + b"\n" * draw.draw(st.booleans()))
    try:
        read(path)
    except (ValueError, OSError) as problem:
        said = str(problem)
        assert type(problem) is ValueError and len(said) > 20, repr(problem)
        assert said.isprintable() or "\n" in said
        # what is asked of a plan or a timeline that could be read knows no path
        assert f"{RESULTS}/{path.stem}" in said or said.startswith(("plan", "the plan", "a trace without"))


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a device", "directory", "link to nothing", "huge",
                                  "binary"])
def test_what_is_no_plain_file_is_refused_at_once(format_, kind, tmp_path):
    path, right, read = format_
    path.unlink()
    try:
        {"pipe": lambda: os.mkfifo(path), "device": lambda: path.symlink_to("/dev/null"),
         "link to a device": lambda: path.symlink_to("/dev/zero"), "directory": path.mkdir,
         "link to nothing": lambda: path.symlink_to("nowhere"), "binary": lambda: path.write_bytes(b"\x80\x81"),
         "huge": lambda: (path.touch(), os.truncate(path, 1 << 40))}[kind]()
        if kind == "link to nothing":
            if path.name != "tests-serial.json":  # read as counts of tests that were not run
                with pytest.raises((OSError, ValueError, ClusterError), match="No such|not exist|stored"):
                    read(path)
        elif not (path.name == "metrics.jsonl" and kind == "binary"):  # a line that was cut off
            with pytest.raises(ValueError, match="no plain file|bytes|not UTF-8|trace.json does not exist") as caught:
                read(path)
            assert f"{RESULTS}/{path.name}" in str(caught.value)
    finally:
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.write_text(json.dumps(right))


@FUZZ
@given(draw=st.data())
def test_a_cells_result_is_what_was_written_or_run_again(tmp_path_factory, draw):
    folder = tmp_path_factory.getbasetemp() / "cells"
    (folder / CELL.file).parent.mkdir(parents=True, exist_ok=True)
    right = {"cell": CELL.to_json(), "version": "v", "result": {"a": 1}}
    (folder / CELL.file).write_bytes(draw.draw(damaged_text(right)))
    assert type(kept_result(folder, CELL, "v")) in (dict, type(None))


@FUZZ
@given(draw=st.data())
@pytest.mark.parametrize("kind, right", [(Options, asdict(Options())),
                                         (Recipe, asdict(Recipe("lm", "x", sizes={"a": 1})))])
def test_options_and_recipes_are_refused_by_field(kind, right, draw):
    try:
        data = parse_json(draw.draw(damaged_text(json.loads(json.dumps(right)))), object)
        found = kind.from_json(data)
        assert set(data) <= set(right) and kind.from_json(found.to_json()) == found or "nan" in str(found)
    except ValueError as problem:
        assert type(problem) is ValueError and str(problem)


@FUZZ
@given(draw=st.data())
def test_arrays_of_a_trace_are_what_was_written_or_refused(tmp_path_factory, draw):
    folder = tmp_path_factory.getbasetemp() / "arrays"
    folder.mkdir(exist_ok=True)
    write_small_trace(folder)
    file = folder / "small.safetensors"
    right = file.read_bytes()
    file.write_bytes(draw.draw(damaged_bytes(right)))
    try:
        found = read_trace(folder / "small.json")
        assert [a.tolist() for a in found.arrays.values()] == [[1.0] * 3, [[0.0, 0.0]] * 2]
    except ValueError as problem:
        assert type(problem) is ValueError and str(folder / "small") in str(problem)


class Point(Struct, forbid_unknown_fields=True):
    """What the tests of the reader itself read."""

    x: int
    y: Annotated[float, Meta(ge=0)] = 0.0


@dataclass
class Line:
    """A dataclass, of which msgspec itself would take unknown fields."""

    ends: list[Point]


class Open(TypedDict):
    x: int


@pytest.mark.parametrize("text, kind, words", [
    ("", Point, "it is not JSON: Expecting value"), ("{'x': 1}", Point, "it is not JSON"),
    (b"\xff", Point, "it is no text: byte 0 is not UTF-8"), ("[" * 10**6, Point, "more than 64 deep"),
    ("[" * 66 + "]" * 66, list, "more than 64 deep"),
    ('{"x": 1, "x": 2}', Point, "the field 'x' is there more than once"),
    ('{"x": "\\ud800"}', dict, "it has half a character"),
    ('{"x": 1.5}', Point, "Expected `int`, got `float` - at `$.x`"),
    ('{"x": 1, "z": 2}', Point, "unknown field `z`"), ('{"y": 1}', Point, "missing required field `x`"),
    ('{"x": 1, "y": -1}', Point, "`float` >= 0.0 - at `$.y`"), ("9" * 5000, int, "4300 digits"),
    ('{"ends": [{"x": true}]}', Line, "Expected `int`, got `bool` - at `$.ends[0].x`"),
    ('{"ends": [], "colour": 1}', Line, "unknown field 'colour' - at `$`; it has ends"),
])
def test_what_is_wrong_is_said_with_its_place(text, kind, words):
    with pytest.raises(ValueError) as caught:
        parse_json(text, kind)
    assert words in str(caught.value)


def test_what_is_right_is_returned_as_its_type():
    assert parse_json('{"x": 1, "y": 2}', Point) == Point(1, 2.0)
    assert parse_json(b'{"ends": [{"x": 1}]}', Line) == Line([Point(1)])
    assert parse_json('{"x": 1, "more": [NaN]}', Open).keys() == {"x", "more"}
    assert parse_json("[" * 65 + "]" * 65, list)
    with pytest.raises(ValueError, match=r"Expected `int`, got `str` - at `\$.points\[3\].x`"):
        shaped({"x": "1"}, Point, "$.points[3]")


def test_a_file_is_read_up_to_its_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_plain(path, 5) == b"12345" and check_plain(path, 5) is None
    with pytest.raises(ValueError, match="it has 5 bytes; at most 4 are read"):
        read_plain(path, 4)
    with pytest.raises(ValueError, match="it has more than 4 bytes"):
        read_plain("/proc/self/status", 4)  # a plain file that says it were empty
    with pytest.raises(ValueError, match=f"{path} is damaged, or not a point: Expected `object`, got `int`; draw it"):
        read_json(path, Point, what="a point", remedy="draw it again")
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none", Point, what="a point", remedy="draw it again")
