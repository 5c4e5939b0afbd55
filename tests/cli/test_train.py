"""The command line as a person meets it: one rank, several ranks, resume, refusals. Most tests start real jobs."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refimpl.cli import main
from refimpl.cli.train import READ_IN_PLACE, _prepare, kinds_told
from refimpl.transport.launch import launch, mpirun_command

TINY = ["--data", "synthetic:300", "--preset", "tiny", "--microbatch-size", "3", "--window", "5", "--steps", "6",
        "--heldout", "200"]
KEYS = {"parameters_sha256", "state_sha256", "loss", "examples_per_second", "bytes", "ranks", "architecture"}


def train(*arguments, ranks=None, model="lm"):
    """Run train --json; return (exit status, result or None, stderr)."""
    command = ["-m", "refimpl", "train", model, *TINY, "--json", *map(str, arguments)]
    if ranks is None:
        job = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=120)
    else:
        job = launch(ranks, command, timeout=120, capture=True)
    return job.returncode, json.loads(job.stdout) if job.returncode == 0 else None, job.stderr


def train_apart(*per_rank):
    """Run one rank for each list of arguments, in one job; return (exit status, stderr, seconds)."""
    argv, environment = mpirun_command(1, ["-m", "refimpl", "train", "lm", *TINY, "--no-output"])
    jobs = [[argv[0], *argv[1:], *map(str, arguments)] for arguments in per_rank]
    joined = jobs[0] + [word for job in jobs[1:] for word in [":", *job[1:]]]
    begin = time.monotonic()
    job = subprocess.run(joined, env=environment, capture_output=True, text=True, timeout=60)
    return job.returncode, job.stderr, time.monotonic() - begin


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


def test_the_cnn_trains(tmp_path):
    status, result, stderr = train("--data", "digits", "--steps", 2, "--output", tmp_path / "cnn", ranks=2, model="cnn")
    assert status == 0, stderr
    assert 0 <= result["accuracy"] <= 1 and result["bytes"]["allreduce"] > 0


def test_compare_prints_one_hash(tmp_path):
    command = [sys.executable, "-m", "refimpl", "compare", "lm", "--ranks", "2", *TINY, "--output", str(tmp_path)]
    job = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert job.returncode == 0, job.stderr
    assert "One answer" in job.stdout and "perplexity" in job.stdout
    assert f"hybrid, allreduce: {READ_IN_PLACE}\n" in job.stdout and job.stdout.count(READ_IN_PLACE) == 3  # not of ps
    hashes = {json.loads((tmp_path / a / "result.json").read_text())["parameters_sha256"]
              for a in ("hybrid", "allreduce", "ps")}
    assert len(hashes) == 1 and (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


APART = [
    (["--seed", 1], ["--seed", 2], "seed is 1 on rank 0, 2 on rank 1"),
    (["--set", "hidden=12"], ["--set", "hidden=13"], "variable lstm0/kernel is"),
    (["--data", "synthetic:300"], ["--data", "synthetic:301"], "data is"),
    (["--partitions", 2], ["--partitions", 3], "partitions is 2 on rank 0, 3 on rank 1"),
    (["--steps", 6], ["--steps", 7], "steps is 6 on rank 0, 7 on rank 1"),
    ([], ["--data", "text:/nowhere"], "rank 1: "),
]
REFUSED = [
    (["--output", "/proc/none/run"], "cannot write to run directory"),
    (["--data", "nonsense"], "no data called 'nonsense'"),
    (["--data", "digits"], "lm does not train on 'digits'"),
    (["--preset", "huge"], "no preset 'huge'; it has"),
    (["--set", "depth=3"], "no size depth; it has"),
    (["--architecture", "hybrid", "--sparse-as-dense"], "goes with --architecture allreduce"),
    (["--microbatches", "6", "--allreduce", "halving-doubling"], "--allreduce direct"),
    (["--resume", "/nowhere"], "/nowhere is no directory: give the run directory of a training"),
]
"""What one rank, the other, or both are asked for, and what is said of it: two of each in jobs of their own."""


@pytest.mark.parametrize("first, second, culprit", [APART[1], APART[5]])
def test_ranks_that_disagree_all_stop_with_one_message(first, second, culprit):
    status, stderr, seconds = train_apart(first, second)
    said = complaints(stderr)
    assert status != 0 and seconds < 20
    assert len(said) == 2 and len(set(said)) == 1, stderr
    assert culprit in said[0]


@pytest.mark.parametrize("arguments, words", [REFUSED[1], REFUSED[7]])
def test_refusals_name_culprit_and_remedy_on_every_rank(arguments, words):
    status, _, stderr = train(*arguments, ranks=2)
    said = complaints(stderr)
    assert status != 0 and len(said) == 2 and len(set(said)) == 1 and words in said[0], stderr


SEVERAL = """
import contextlib, io, json, sys
from mpi4py import MPI
from refimpl.cli import main
world, found = MPI.COMM_WORLD, []
for asked in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as said:
        status = main(["train", "lm", *asked[world.rank]])
    found.append(world.gather((status, said.getvalue())))
world.rank or print(json.dumps(found))
"""


@pytest.mark.thorough
def test_refusals_in_one_job_are_said_in_one_message_each(tmp_path):
    each = [*APART, *((arguments, arguments, words) for arguments, words in REFUSED)]
    lines = [[[*TINY, "--json", *map(str, of_rank)] for of_rank in both] for *both, _ in each]
    job = launch(2, ["-c", SEVERAL, json.dumps(lines)], timeout=120, capture=True, cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    for (*_, words), ends in zip(each, json.loads(job.stdout), strict=True):
        assert {status for status, _ in ends} == {1}
        said = [complaints(stderr) for _, stderr in ends]
        assert len(said[0]) == 1 and said[0] == said[1] and words in said[0][0], ends


@pytest.mark.thorough
def test_a_resume_of_another_training_is_refused(tmp_path, capsys):
    def here(*arguments):
        status = main(["train", "lm", *TINY, "--json", *map(str, arguments)])
        return status, complaints(capsys.readouterr().err)

    assert here("--output", tmp_path / "run") == (0, [])
    for change, word in ((["--seed", 5], "seed was 0 and is now 5"), (["--learning-rate", 1], "learning_rate was"),
                         (["--microbatch-size", 4], "data was"), (["--set", "hidden=13"], "variables was")):
        status, said = here("--resume", tmp_path / "run", "--steps", 8, *change)
        assert status == 1 and word in said[0]
    status, said = here("--output", tmp_path / "run")
    assert status == 1 and "already holds a run" in said[0]


@pytest.mark.parametrize("microbatches, told", [(2, 1), (3, 0)])
def test_ranks_that_have_nothing_to_do_are_told(microbatches, told):
    job = launch(3, ["-m", "refimpl", "train", "lm", *TINY, "--no-output", "--microbatches", str(microbatches)],
                 timeout=120, capture=True)
    note = "note: only 2 of 3 ranks have a microbatch to compute: give --microbatches 3 or more, or start 2 ranks\n"
    assert job.returncode == 0 and job.stdout.count(note) == told and job.stdout.count("note:") == told


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


def test_more_steps_than_the_schedule_has_need_a_longer_one(tmp_path, capsys):
    cnn = ["train", "cnn", "--preset", "tiny", "--heldout", "9"]
    assert main([*cnn, "--steps", "1", "--output", f"{tmp_path}"]) == 0
    resumed = ["train", "--steps", "3", "--resume", f"{tmp_path}"]
    assert main(resumed) == 1
    said = complaints(capsys.readouterr().err)
    assert "the cosine schedule of the learning rate reaches 0 after step 1" in said[0] and "--rate-steps 3" in said[0]
    assert main([*resumed, "--rate-steps", "3"]) == 0
    assert "resumed with steps 3 (was 1), rate_steps 3 (was 1)" in capsys.readouterr().out
    rates = [json.loads(line)["learning_rate"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert len(rates) == 3 and min(rates) > 0


def test_without_barriers_the_schedule_lasts_for_all_pushes():
    asked = {"steps": 4, "architecture": "ps", "consistency": "asynchronous"}
    options = {ranks: _prepare({"preset": "tiny"}, dict(asked), {"model": "cnn"}, ranks)[4] for ranks in (1, 3)}
    assert (options[1].rate, options[1].rate_steps, options[3].rate_steps) == ("cosine", 4, 12)
    assert _prepare({"preset": "tiny"}, {**asked, "rate_steps": 7}, {"model": "cnn"}, 3)[4].rate_steps == 7


def test_a_killed_rank_ends_the_job():
    argv, environment = mpirun_command(2, ["-m", "refimpl", "train", "lm", *TINY, "--steps", "100000", "--no-output"])
    job = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    victim, deadline = None, time.monotonic() + 60
    while victim is None and time.monotonic() < deadline:
        time.sleep(0.2)
        victim = next(iter(ranks_below(job.pid)), None)
    time.sleep(3)
    os.kill(victim, 9)
    begin = time.monotonic()
    job.communicate(timeout=30)
    assert job.returncode != 0 and time.monotonic() - begin < 10


def ranks_below(pid):
    """Return the processes below ``pid`` that run refimpl's train."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found = []
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        command = Path(f"/proc/{child}/cmdline")
        if above == pid and child != pid and command.exists() and b"-m\0mpi4py\0-m\0refimpl" in command.read_bytes():
            if b"mpirun" not in command.read_bytes() and b"hydra" not in command.read_bytes():
                found.append(child)
    return found


def test_activations_are_told_where_there_are_some():
    every = {"dense": 1, "rows": 0, "indices": 0, "activations": 0, "control": 2}
    assert kinds_told([every]) == kinds_told([{"dense": 1}]) == ["dense", "rows", "indices"]
    assert kinds_told([every, {**every, "activations": 3}])[-1] == "activations"
