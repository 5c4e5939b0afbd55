"""The command plan: its table, its JSON, the file that it writes, and what it refuses."""

import argparse
import json

import pytest

from refimpl.cli import main
from refimpl.cli.asked.values import slowed
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
    assert "softmax_weight" in said and "the owner of a row computes the sum" in said and "exchanges of a step" in said
    assert "MB are counted at the card" in said


def test_a_model_that_names_its_layers_gets_their_table(capsys):
    asked = ["plan", "vgg", "--preset", "tiny", "--ranks", "4", "--rate", "10gbit", "--microbatches", "8",
             "--microbatch-size", "1"]
    assert main(asked) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "4 ranks on 4 machines" in said  # a rate is of cards: a machine a rank
    assert all(words in said for words in ("layers on 4 ranks, each by itself", "the mesh of all ranks", "K = 2 sends"))
    assert main([*asked, "--machines", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    layers = {layer["layer"]: layer for layer in found["layered"]["layers"]}
    assert layers["stage0.conv0"]["mode"] == "data" and layers["connected0"]["mode"] == "hybrid"
    assert [mesh["name"] for mesh in found["layered"]["meshes"]] == ["4x1", "2x2", "1x4"]
    assert found["layered"]["meshes"][0]["into"] == 0 and found["layered"]["crossing_batch"]["2"] > 0
    assert len(found["network"]["machines"]) == 2
    assert main([*TINY, "--json"]) == 0
    assert "layered" not in json.loads(capsys.readouterr().out)


def test_trainings_without_barriers_are_predicted(capsys):
    served = [*TINY, "--architecture", "ps"]
    assert main([*served, "--compute", "1", "--slow-rank", "2=3x", "--rate", "10gbit"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "6 workers compute for 1 s in each step, rank 2 3 times as long" in said
    assert "│ synchronous │" in said and "│ bounded:2 │" in said
    assert main([*served, "--slow-rank", "2=3x", "--rate", "10gbit", "--json"]) == 0  # 0.1 s
    found = {each["consistency"]: each for each in json.loads(capsys.readouterr().out)["without_barriers"]}
    assert list(found) == ["synchronous", "backup:1", "bounded:2", "softsync:2", "asynchronous"]
    for name, steps in (("synchronous", 20), ("bounded:2", 20), ("backup:1", 50), ("asynchronous", 5 / 0.1 + 1 / 0.3)):
        assert found[name]["steps"] == pytest.approx(steps, rel=0.02)
    assert main(served) == 0
    assert "without barriers" not in capsys.readouterr().out


@pytest.mark.parametrize("text", ["2", "2=", "=3x", "2=0.5x", "-1=3x", "2=1.2.3x", "2=nanx", "2=infx", "two=3x"])
def test_a_slow_rank_that_is_none(text):
    assert slowed("2=3x") == (2, 3.0) and slowed("0=1.5x") == (0, 1.5)
    with pytest.raises(argparse.ArgumentTypeError, match="should read RANK=FACTORx, the factor at least 1"):
        slowed(text)


def test_files_that_cannot_be_read_or_written_are_named(capsys, tmp_path):
    assert main([*TINY, "--output", str(tmp_path / "none" / "plan.json")]) == 1
    assert "none/plan.json: No such file or directory; give another --output" in capsys.readouterr().err
    assert main([*TINY, "--network", str(tmp_path / "none.json")]) == 1
    assert "none.json: No such file or directory; it is the network.json of a run" in capsys.readouterr().err


def test_refusals(capsys):
    assert main([*TINY, "--architecture", "ps", "--slow-rank", "6=3x"]) == 1
    assert "--slow-rank 6: there is no such rank; name one from 0 to 5" in capsys.readouterr().err
    assert main([*TINY, "--architecture", "allreduce", "--compute", "1"]) == 1
    assert "has strategy allgather: take --architecture ps" in capsys.readouterr().err
