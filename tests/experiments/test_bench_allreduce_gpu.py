"""bench allreduce --device cuda, on the stand-ins: our schedules and NCCL's own are checked, raced, and put together."""

import json
from pathlib import Path

import pytest

from refimpl.cli import main

STANDIN = str(Path(__file__).parents[1] / "device" / "standin")


def test_schedules_race_nccls_own_sum(capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", f"{STANDIN}:{Path(__file__).parents[2]}")
    assert main(["bench", "allreduce", "--device", "cuda", "--sizes", "1KiB", "--seconds", "0.01", "--rounds", "1",
                 "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert {row["name"]: row["peer"] for row in result["rows"]} == {
        "refimpl ring over NCCL": False, "refimpl direct over NCCL": False, "refimpl halving-doubling over NCCL": False,
        "NCCL allreduce": True}
    assert result["ratios"]["gpu 1 KiB"] == result["ratios"]["gpu"] > 0
    assert "2 ranks sharing a GPU" in result["transport"]


def test_a_cluster_has_no_gpus(capsys):
    assert main(["bench", "allreduce", "--device", "cuda", "--cluster"]) == 1
    assert "leave --cluster out" in capsys.readouterr().err


@pytest.mark.skipif("cupy" in __import__("sys").modules, reason="CuPy, or its stand-in, is here")
def test_without_cupy_the_ranks_say_what_is_missing(capsys):
    assert main(["bench", "allreduce", "--device", "cuda", "--seconds", "0.01"]) == 1
    assert "needs CuPy, which is not installed" in capsys.readouterr().err
