"""The command plan: its table, its JSON, the file that it writes, and what it refuses."""

import json

from refimpl.cli import main
from refimpl.plan import Plan

TINY = ["plan", "lm", "--data", "synthetic:300", "--preset", "tiny",
        "--ranks", "6", "--machines", "3", "--rate", "10mbit"]


def test_a_plan_is_printed_and_written(tmp_path, capsys):
    path = tmp_path / "plan.json"
    assert main([*TINY, "--json", "--output", str(path), "--optimizer", "adam"]) == 0
    found = json.loads(capsys.readouterr().out)
    plan = Plan.from_json(json.loads(path.read_text()))
    assert plan == Plan.from_json(found["plan"])
    assert plan.machines == ((0, 1), (2, 3), (4, 5)) and plan.microbatches == 8
    assert {v["variable"]: v["strategy"] for v in found["variables"]} == {
        name: strategy.name for name, strategy in plan.strategies.items()}
    assert found["network"]["bandwidth_out"] == [1.25e6] * 3
    assert found["seconds"]["auto"] == min(found["seconds"].values())
    assert main(TINY) == 0
    said = capsys.readouterr().out
    assert "softmax_weight" in said and "at the owner" in said and "exchanges of a step" in said
    assert "MB go through the card" in said


def test_files_that_cannot_be_read_or_written_are_named(capsys, tmp_path):
    assert main([*TINY, "--output", str(tmp_path / "none" / "plan.json")]) == 1
    assert "none/plan.json: No such file or directory; give another --output" in capsys.readouterr().err
    assert main([*TINY, "--network", str(tmp_path / "none.json")]) == 1
    assert "none.json: No such file or directory; it is the network.json of a run" in capsys.readouterr().err


def test_refusals(capsys):
    assert main(["plan", "lm", "--ranks", "2", "--machines", "3"]) == 1
    assert "2 ranks on 3 machines: each machine needs a rank" in capsys.readouterr().err
    assert main([*TINY, "--rate", "fast"]) == 1
    assert "--rate" in capsys.readouterr().err
