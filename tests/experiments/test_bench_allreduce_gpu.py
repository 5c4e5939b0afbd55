"""bench allreduce --device cuda, on the stand-ins: our schedules and NCCL's own are checked and raced."""

import json
import subprocess
from pathlib import Path

import pytest

from refimpl.cli import main
from refimpl.experiments import job
from refimpl.experiments.bench.allreduce.run import run_on_gpus
from refimpl.transport.launch import LaunchError

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


def test_ranks_that_hang_or_cannot_start_cost_no_more_than_these_figures(monkeypatch):
    """``bench gpu`` measures them last, and takes a ValueError into its report."""
    def late(*_, **__):
        raise subprocess.TimeoutExpired("mpirun", 300.0, stderr="NCCL hangs")

    def missing(*_, **__):
        raise LaunchError("no mpirun")

    monkeypatch.setattr(job, "launch", late)
    with pytest.raises(ValueError, match="not done after 300 s: NCCL hangs"):
        run_on_gpus()
    monkeypatch.setattr(job, "launch", missing)
    with pytest.raises(ValueError, match="no mpirun"):
        run_on_gpus()


@pytest.mark.parametrize("option", [["--cluster"], ["--rates", "1gbit,1gbit"]])
def test_a_cluster_has_no_gpus(capsys, option):
    assert main(["bench", "allreduce", "--device", "cuda", *option]) == 1
    assert f"leave {option[0]} out" in capsys.readouterr().err


@pytest.mark.skipif("cupy" in __import__("sys").modules, reason="CuPy, or its stand-in, is here")
def test_without_cupy_the_ranks_say_what_is_missing(capsys):
    assert main(["bench", "allreduce", "--device", "cuda", "--seconds", "0.01"]) == 1
    assert "needs CuPy, which is not installed" in capsys.readouterr().err
