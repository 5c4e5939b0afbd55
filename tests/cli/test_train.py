"""The command line as a person meets it: one rank, several ranks, resume, refusals. Some tests start real jobs."""

import json
import os
import re
import subprocess
import sys

import pytest

from refimpl.cli import compare, main
from refimpl.cli.told.said import READ_IN_PLACE, kinds_told
from refimpl.cli.train import _prepare
from refimpl.transport.launch import launch, mpirun_command

TINY = ["--data", "synthetic:300", "--preset", "tiny", "--microbatch-size", "3", "--window", "5", "--steps", "6",
        "--heldout", "200"]
KEYS = {"parameters_sha256", "state_sha256", "loss", "examples_per_second", "bytes", "ranks", "architecture"}


def train(*arguments, ranks=None):
    """Run train --json; return (exit status, result or None, stderr)."""
    command = ["-m", "refimpl", "train", "lm", *TINY, "--json", *map(str, arguments)]
    if ranks is None:
        job = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)
    else:
        job = launch(ranks, command, timeout=120, capture=True)
    return job.returncode, json.loads(job.stdout) if job.returncode == 0 else None, job.stderr


def complaints(stderr):
    return [line for line in stderr.splitlines() if line.startswith("refimpl: error: ")]


@pytest.mark.thorough
def test_ranks_architectures_and_resume_give_one_answer(tmp_path):
    status, alone, stderr = train("--output", tmp_path / "alone")
    assert status == 0, stderr
    assert KEYS | {"perplexity"} <= set(alone) and alone["ranks"] == 1
    assert {"config.json", "plan.json", "metrics.jsonl", "result.json"} <= set(os.listdir(tmp_path / "alone"))
    status, many, stderr = train("--architecture", "ps", "--trace", "--output", tmp_path / "many", ranks=3)
    assert status == 0, stderr
    assert many["ranks"] == 3 and set(many["bytes"]) == {"pull", "push", "norm"}
    status, first, stderr = train("--steps", 4, "--rate-steps", 6, "--output", tmp_path / "half", ranks=2)
    assert status == 0, stderr
    status, second, stderr = train("--resume", tmp_path / "half", "--architecture", "allreduce", ranks=3)
    assert status == 0, stderr
    for field in ("parameters_sha256", "state_sha256", "loss", "perplexity"):
        assert alone[field] == many[field] == second[field]
    assert first["parameters_sha256"] != second["parameters_sha256"]
    steps = [json.loads(line)["step"] for line in (tmp_path / "half" / "metrics.jsonl").read_text().splitlines()]
    assert steps == [1, 2, 3, 4, 5, 6]
    events = json.loads((tmp_path / "many" / "trace.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1, 2}
    assert {"pull", "compute", "push", "update"} <= {event["name"] for event in events}


def test_compare_prints_one_hash(tmp_path, monkeypatch, capfd):
    command = ["compare", "lm", "--ranks", "2", *TINY, "--steps", "2", "--output", str(tmp_path)]
    monkeypatch.setattr(compare, "ARCHITECTURES", ("hybrid", "ps"))  # allreduce is a job more, and shows no other line
    monkeypatch.setattr(sys, "argv", ["refimpl", *command])
    assert main(command) == 0
    said = capfd.readouterr().out
    assert "One answer" in said and "perplexity" in said
    assert f"\nhybrid: {READ_IN_PLACE}\n" in said and said.count(READ_IN_PLACE) == 2  # not of ps
    results = [json.loads((tmp_path / a / "result.json").read_text()) for a in ("hybrid", "ps")]
    assert results[0]["bytes"]["allreduce"] > 0
    assert len({result["parameters_sha256"] for result in results}) == 1 and (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_ranks_that_disagree_end_the_job_with_one_message():
    """What else ranks can disagree on: test_train_mpi.py."""
    argv, environment = mpirun_command(1, ["-m", "refimpl", "train", "lm", *TINY, "--no-output", "--seed", "1"])
    job = subprocess.run([*argv, ":", *argv[1:-1], "2"], env=environment, capture_output=True, text=True, timeout=60)
    said = complaints(job.stderr)
    assert job.returncode != 0 and len(said) == 2 and len(set(said)) == 1, job.stderr
    assert "seed is 1 on rank 0, 2 on rank 1" in said[0]


@pytest.mark.parametrize("options, words", [
    (["--survive"], "mpirun --with-ft ulfm -n N "),
    (["--backup-every", "2"], "--backup-every says how often --survive copies rows"),
])
def test_survival_is_refused_where_mpi_cannot_do_it(options, words, capsys):
    assert main(["train", "lm", *TINY, "--no-output", *options]) == 1
    stderr = capsys.readouterr().err
    assert len(complaints(stderr)) == 1 and words in stderr


@pytest.mark.parametrize("how", [[], ["--architecture", "ps", "--consistency", "asynchronous"]])
def test_a_speed_is_told_where_a_step_was_measured(how, capsys):
    lm = ["train", "lm", *TINY, "--no-output", *how, "--steps"]
    speeds = {}
    for steps in ("1", "2", "3"):
        assert main([*lm, steps]) == 0
        result = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("loss "))
        speeds[steps] = re.findall(r"([\d,]+) words/s", result)
    assert speeds.pop("1") == []  # its only step has compiled kernels: a speed of that would tell nothing
    assert all(len(found) == 1 and int(found[0].replace(",", "")) > 0 for found in speeds.values())


def test_without_barriers_the_schedule_lasts_for_all_pushes():
    asked = {"steps": 4, "architecture": "ps", "consistency": "asynchronous"}
    options = {ranks: _prepare({"preset": "tiny"}, dict(asked), {"model": "cnn"}, ranks)[4] for ranks in (1, 3)}
    assert (options[1].rate, options[1].rate_steps, options[3].rate_steps) == ("cosine", 4, 12)
    assert _prepare({"preset": "tiny"}, {**asked, "rate_steps": 7}, {"model": "cnn"}, 3)[4].rate_steps == 7


def test_activations_are_told_where_there_are_some():
    every = {"dense": 1, "rows": 0, "indices": 0, "activations": 0, "control": 2}
    assert kinds_told([every]) == kinds_told([{"dense": 1}]) == ["dense", "rows", "indices"]
    assert kinds_told([every, {**every, "activations": 3}])[-1] == "activations"


def test_a_choice_of_codecs_is_told_and_made(tmp_path, capsys):
    """One rank sends nothing, so nothing is encoded."""
    said = ["train", "lm", *TINY, "--steps", "1", "--output", str(tmp_path / "run"), "--architecture", "auto"]
    assert main([*said, "--codec", "dense=bf16/integers:8"]) == 0
    assert "dense gradients as bf16/integers:8" in capsys.readouterr().out
    assert json.loads((tmp_path / "run" / "config.json").read_text())["options"]["codec"] == {}
    assert main(["plan", "lm", "--ranks", "4", "--rate", "200mbit", "--codec", "dense=bf16/integers:8"]) == 0
    assert "gradients as integers:8" in capsys.readouterr().out
