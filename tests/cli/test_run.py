"""run: a training is started again until its result is written, on the hosts that are left; wrong uses are refused."""

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from refimpl.cli import main
from refimpl.training.run import restarts
from refimpl.training.run.directory import read_metrics, read_result
from refimpl.transport.launch import runtime

TINY = ["train", "lm", "--preset", "tiny", "--data", "synthetic:300", "--heldout", "0"]


@pytest.fixture
def jobs(monkeypatch, tmp_path):
    """Replace the jobs by a script of them: (status, what it leaves in the run directory). Return it and what was run.
    """
    script, run = [], []

    def run_job(argv, environment, grace):
        status, left = script.pop(0)
        (tmp_path / "lm").mkdir(exist_ok=True)
        for name in left:
            (tmp_path / "lm" / name).unlink(missing_ok=True)
            (tmp_path / "lm" / name).write_text("{}")
        run.append(argv[argv.index("train"):])
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(restarts, "run_job", run_job)
    return script, run


BEGUN, SAVED = ["config.json", "metrics.jsonl"], ["config.json", "metrics.jsonl", "checkpoint-20.json"]


@pytest.mark.parametrize("script, status, says", [
    ([(0, ["result.json"])], 0, "start 1 of 3: 2 ranks on this host\n"),
    ([(9, SAVED), (0, SAVED + ["result.json"])], 0, "ended with status 9 and the training is not complete; its newest "
     "checkpoint is of step 20\nrefimpl: start 2 of 3: 2 ranks on this host\n"),
    # Open MPI's launcher ends with status 0 when it loses a machine
    ([(0, BEGUN), (0, SAVED), (0, ["result.json"])], 0, "with status 0 and the training is not complete; it has saved "
     "no checkpoint\nrefimpl: start 2 of 3"),
    ([(139, ["result.json"])], 0, "start 1 of 3"),  # it died while it left, when all was done
    ([(1, [])], 1, "start 1 of 3: 2 ranks on this host\n"),  # refused: once is enough
    ([(137, []), (1, BEGUN), (0, BEGUN)], 1, "no restart is left of --restarts 2; to go on, run the same command"),
    ([(255, SAVED)] * 3, 255, "no restart is left"),
])
def test_only_a_result_that_is_written_ends_the_starts(jobs, tmp_path, capfd, script, status, says):
    jobs[0].extend(script)
    asked = [*TINY, "--output", str(tmp_path / "lm")]
    assert main(["run", "-n", "2", "--restarts", "2", "--", *asked]) == status
    assert jobs[0] == [] and says in capfd.readouterr().err
    saved = next((number for number, (_, left) in enumerate(script) if left == SAVED), len(script))
    for number, arguments in enumerate(jobs[1]):
        assert arguments == asked + ["--resume", str(tmp_path / "lm")] * (number > saved)


def test_a_run_that_was_cut_off_before_its_first_checkpoint_begins_anew(jobs, tmp_path):
    (tmp_path / "lm").mkdir()
    for name in BEGUN:
        (tmp_path / "lm" / name).write_text("stale")
    jobs[0].append((0, ["result.json"]))
    assert main(["run", "-n", "2", "--", *TINY, "--output", str(tmp_path / "lm")]) == 0
    assert not any((tmp_path / "lm" / name).exists() for name in BEGUN)


@pytest.mark.parametrize("arguments, says", [
    (["-n", "2", "--", *TINY], "the training needs --output DIR"),
    (["-n", "2", "--", *TINY, "--no-output"], "leave out --no-output: without files there is no checkpoint to continue from"),
    (["-n", "2", "--", *TINY, "--resume", "x"], "leave out --resume: a run whose --output holds a checkpoint continues"),
    (["-n", "2", "--", "compare", "lm"], "give a training after --: run -n 4 -- train MODEL --output DIR"),
    (["--", *TINY, "--output", "x"], "the number of ranks is missing: give -n N, or --hosts FILE"),
    (["--hosts", "nowhere", "--", *TINY, "--output", "x"], "No such file or directory: 'nowhere'"),
])
def test_a_run_that_could_not_restart_is_refused(capfd, arguments, says):
    assert main(["run", *arguments]) == 1
    error = capfd.readouterr().err
    assert says in error and error.count("\n") == 1


def test_a_wrong_option_of_train_is_told_by_train(capfd):
    with pytest.raises(SystemExit) as end:
        main(["run", "-n", "2", "--", *TINY, "--lr", "3"])
    assert end.value.code == 2 and "there is no option --lr; did you mean --learning-rate?" in capfd.readouterr().err


@pytest.mark.skipif(runtime().flavour != "mpich", reason="the stand-in for ssh is written for MPICH's launcher")
def test_a_machine_is_lost_with_its_daemon_and_the_training_ends_on_the_other_with_the_same_bits(tmp_path):
    agent, hosts = tmp_path / "agent", tmp_path / "hosts"
    agent.write_text('#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\n'
                     f'[ -e {tmp_path}/lost-$host ] && exit 255\n'
                     f'echo $$ > {tmp_path}/pid-$host\nexec sh -c "exec $*"\n')
    agent.chmod(stat.S_IRWXU)
    hosts.write_text("node1 slots=2\nnode2 slots=1\n")
    training = [*TINY, "--steps", "12", "--checkpoint-every", "2", "--timeout", "60"]
    job = subprocess.Popen([sys.executable, "-m", "refimpl", "run", "--hosts", str(hosts), "--", *training,
                            "--output", str(tmp_path / "lm")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
                           text=True, env={**os.environ, "HYDRA_LAUNCHER_EXEC": str(agent)})

    def lose():
        while not list((tmp_path / "lm").glob("checkpoint-*.json")):
            time.sleep(0.01)
        (tmp_path / "lost-node2").touch()
        os.kill(int((tmp_path / "pid-node2").read_text()), signal.SIGKILL)

    threading.Thread(target=lose, daemon=True).start()
    told = job.communicate(timeout=240)[1]
    assert job.returncode == 0, told
    assert "start 1 of 4: 3 ranks on node1, node2\n" in told
    assert "start 2 of 4: 2 ranks on node1; node2 does not answer\n" in told
    assert [line["step"] for line in read_metrics(tmp_path / "lm")] == list(range(1, 13))
    assert main([*training, "--output", str(tmp_path / "alone")]) == 0
    assert read_result(tmp_path / "lm")["state_sha256"] == read_result(tmp_path / "alone")["state_sha256"]
