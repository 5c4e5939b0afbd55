"""The real experiment, a small part of it: trials of all kinds on 3 ranks of MPI, none with a fault."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults import KINDS
from faults.__main__ import main
from faults.commands import path_with_us

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a job's processes in /proc")
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "faults"]
ENVIRONMENT = path_with_us(os.environ)
SEED = 3
FEW = (2, 22, 27)
"""A damaged file, a lie, and a signal; ``make test-faults`` makes more."""


@pytest.mark.thorough
def test_no_hang_no_silent_acceptance_nothing_left_behind(tmp_path):
    """By the command, which counts."""
    argv = [*COMMAND, "--seed", str(SEED), "--output", str(tmp_path)]
    job = subprocess.run([*argv, *(word for number in FEW for word in ("--only", str(number)))],
                         capture_output=True, text=True, cwd=ROOT, env=ENVIRONMENT)
    assert job.returncode == 0, job.stdout + job.stderr
    rows = (tmp_path / "report.md").read_text().split("\n| ")[3:]
    assert [row.split(" | ")[0] for row in rows] == [*KINDS, "all"] and rows[-1].split(" | ")[1] == str(len(FEW))
    assert "Failed: 0" in rows[-1] and "3 hostile trials on 3 ranks" in job.stdout and not list(tmp_path.glob("work*"))


@pytest.mark.parametrize("options", [["--trials", "0"], ["--only", "x"], ["--kind", "x"],
                                     ["--only", "1", "--python", "/no/python"],
                                     ["--output", "/dev/null/x"], ["--jobs", "0"], ["--only", "-1"]])
def test_what_cannot_be_is_refused_in_a_line(options, tmp_path, capsys):
    try:
        status = main(["--output", str(tmp_path), *options])
    except SystemExit as left:
        status = left.code
    assert status in (1, 2) and "error:" in capsys.readouterr().err.splitlines()[-1]


def test_who_ends_the_experiment_ends_all_of_it(tmp_path):
    argv = [*COMMAND, "--trials", "9", "--output", str(tmp_path)]
    experiment = subprocess.Popen(argv, stderr=subprocess.DEVNULL, cwd=ROOT, env=ENVIRONMENT)
    end = time.monotonic() + 60
    while len(_processes_of(tmp_path)) < 3 and time.monotonic() < end:  # a job runs
        time.sleep(0.1)
    assert experiment.poll() is None
    experiment.terminate()
    assert experiment.wait(timeout=30) != 0
    assert _processes_of(tmp_path) == []


def _processes_of(place) -> list[str]:
    """Return the living processes whose command line names a place."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += [str(path)] * (str(place).encode() in path.read_bytes())
    return found
