"""Ranks of `train --survive` are killed, and the others end with the bits of a training in which nobody dies.

    make test-survive
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from refimpl.training.run.directory import read_metrics
from refimpl.transport.launch import launch, runtime

pytestmark = pytest.mark.skipif(runtime().flavour != "openmpi", reason="needs an MPI that outlives its ranks: Open MPI")
ROOT, STEPS = Path(__file__).parents[2], 4
TRAIN = ["-m", "refimpl", "train", "lm", "--preset", "tiny", "--steps", str(STEPS), "--heldout", "200"]
VGG = ["-m", "refimpl", "train", "vgg", "--preset", "tiny", "--steps", str(STEPS), "--heldout", "100", "--no-output",
       "--microbatches", "12", "--microbatch-size", "4"]
PATHS = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
PUSH, BACKUP, GATHER, SAVE = ("refimpl.server.rows:RowServer.push", "refimpl.training.survival.backup:Backups.send",
                              "refimpl.training.survival.memory:Memory.gather", "refimpl.training.session:Session._save")
POST = "refimpl.training.survival.backup:Backups.post"
BEGIN = "refimpl.training.survival.session:SurvivingSession._open"


def survive(ranks, deaths, *options, of=TRAIN):
    """Return what a training prints of which ranks die so, see ``dying``; it must end well."""
    job = launch(ranks, [*of, "--survive", *options], timeout=170, capture=True, survive=True, cwd=ROOT,
                 environment=PATHS | {"REFIMPL_WATCH": "dying:Dying", "REFIMPL_DIE": deaths})
    assert job.returncode == 0, job.stdout + job.stderr
    return job.stdout


def hashes(printed):
    return re.findall(r"sha256 (\w+)", printed)


def alone(arguments):
    """The hashes of one rank, to which nothing happens."""
    job = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=120, cwd=ROOT)
    return hashes(job.stdout)


@pytest.fixture(scope="module")
def undisturbed():
    return alone([*TRAIN, "--no-output"])


@pytest.fixture(scope="module")
def undisturbed_vgg():
    return alone(VGG)


@pytest.mark.parametrize("ranks, deaths, options, told", [
    (3, f"2@3@{PUSH}", [], ["rank 2 died, ranks 0 1 go on"]),
    (4, "0@4@0.02 2@4@0", ["--architecture", "ps", "--backup-every", "2"], ["ranks 1 3 go on"]),
    (3, f"1@3@{POST}", ["--backup-every", "4"], ["rank 1 died, ranks 0 2 go on"]),
    (4, f"0@2@0.01 2@2@{GATHER}", ["--hot-rows", "20"], ["ranks 1 3 go on"]),
    (3, f"1@0@{BEGIN}", [], ["rank 1 died, ranks 0 2 go on"]),
    (3, f"0@2@0 2@3@{BACKUP}", ["--architecture", "allreduce"], ["rank 0 died, ranks 1 2 go on",
                                                                 "rank 2 died, rank 1 goes on"]),
], ids=["in a push", "two at once", "when a backup is under way", "while others recover", "before the first step", "down to one"])
def test_survivors_have_the_undisturbed_bits(undisturbed, ranks, deaths, options, told):
    printed = survive(ranks, deaths, "--no-output", *options)
    assert hashes(printed) == undisturbed
    assert all(words in printed for words in told), printed


@pytest.mark.parametrize("mesh, deaths, options, told", [
    ("2x2", f"1@2@0.01 3@4@{GATHER}", [], ["ranks 0 2 3 go on, and no layer is cut"]),
    ("2x2", "1@2@0 3@4@0", ["--backup-every", "2"], ["rank 3 died, ranks 0 2 go on, on the mesh 1x2"]),
    ("1x4", f"2@3@{BACKUP}", ["--overlap", "--backup-every", "4"], ["ranks 0 1 3 go on, and no layer is cut"]),
    ("auto", "0@2@0", ["--architecture", "auto"], ["rank 0 died, ranks 1 2 3 go on"]),
    ("2x2", "0@3@0 2@3@0", [], ["ranks 0 2 died, ranks 1 3 go on, on the mesh 1x2",
                                "all ranks that had some rows died together: back to the first step"]),
], ids=["three", "two", "one group", "chosen", "all that had a part"])
def test_the_living_of_a_mesh_have_the_undisturbed_bits(undisturbed_vgg, mesh, deaths, options, told):
    printed = survive(4, deaths, "--mesh", mesh, *options, of=VGG)
    assert hashes(printed) == undisturbed_vgg
    assert all(words in printed for words in told), printed


def test_a_death_before_the_training_ends_the_job_in_words():
    job = launch(3, [*TRAIN, "--survive", "--no-output"], timeout=170, capture=True, survive=True, cwd=ROOT,
                 environment=PATHS | {"REFIMPL_WATCH": "dying:Dying", "REFIMPL_DIE": "1@0@0"})
    assert job.returncode and not hashes(job.stdout)
    assert "a rank died before the training began" in job.stderr, job.stdout + job.stderr


@pytest.mark.parametrize("ranks, deaths, told", [
    (3, f"0@2@{SAVE}", "rank 0 died, ranks 1 2 go on"),
    (4, "1@3@0 2@3@0", "back to the newest checkpoint in "),
], ids=["the first rank, in a checkpoint", "a rank and its partner"])
def test_the_run_directory_is_that_of_an_undisturbed_run(undisturbed, tmp_path, ranks, deaths, told):
    printed = survive(ranks, deaths, "--output", str(tmp_path / "run"), "--checkpoint-every", "1")
    assert hashes(printed) == undisturbed and told in printed
    assert [line["step"] for line in read_metrics(tmp_path / "run")] == list(range(1, STEPS + 1))
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert [result["parameters_sha256"], result["state_sha256"]] == undisturbed
    assert result["bytes"]["backup"] > 0 and (tmp_path / "run" / f"checkpoint-{STEPS}.json").exists()
