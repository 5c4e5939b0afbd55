"""The end of a job: of all its ranks at once; after an error that a program does not catch, its lines told once."""

import time

import pytest

from refimpl.cli import main
from refimpl.transport.launch import launch

PROGRAM = """
import numpy as np
from models.data import Examples
from refimpl import Options, Variable, train

class Mine:
    variables = [Variable("bias", (1,))]
    def rows_needed(self, batch):
        return {}
    def loss_and_gradients(self, dense, rows, batch):
        return 1.0, {"bias": RETURNED}

data = Examples(np.zeros((8, 1)), np.zeros(8), 2, 4)
train(Mine(), data, options=Options(steps=1, overlap=False))
"""


def told(tmp_path, returned, ranks):
    """Return what a job of the program writes to stderr, line by line, without MPI's own words."""
    (tmp_path / "mine.py").write_text(PROGRAM.replace("RETURNED", returned))
    job = launch(ranks, [str(tmp_path / "mine.py")], timeout=100, capture=True)
    assert job.returncode != 0
    lines = [line for line in job.stderr.splitlines() if line.strip(" ^~")]
    return lines[:max(place for place, line in enumerate(lines) if line.startswith("refimpl: error")) + 1]


@pytest.mark.parametrize("returned, said", [("float('no')", "ValueError: could not convert string to float: 'no'"),
                                            ("missing", "NameError: name 'missing' is not defined")])
@pytest.mark.thorough("missing")
def test_two_ranks_with_one_error_show_its_lines_once(tmp_path, returned, said):
    lines = told(tmp_path, returned, 2)
    assert len(lines) <= 10 and lines.count(said) == 1 and sum("Traceback" in line for line in lines) == 1
    assert sum(line.startswith("refimpl: error: ") and "mine.py:11, in loss_and_gradients" in line
               for line in lines) == 2
    assert "line 14, in <module>" in "".join(lines) and "/refimpl/" not in "".join(lines)


def test_a_refusal_is_one_line_a_rank_and_idle_ranks_are_named(tmp_path):
    lines = told(tmp_path, "np.zeros(3)", 3)
    assert sum("UserWarning: only 2 of 3 ranks have a microbatch to compute" in line for line in lines) == 1
    errors = [line for line in lines if line.startswith("refimpl: error: ")]
    assert len(errors) == 3 and len(lines) <= 5, lines


def test_processes_of_torchrun_are_told_to_start_by_mpi(monkeypatch, capsys):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert main(["train", "lm", "--preset", "tiny", "--steps", "1", "--no-output"]) == 1
    assert "torchrun has started 4 processes" in (said := capsys.readouterr().err) and "mpirun -n 4 python" in said


def test_any_error_of_one_rank_ends_those_that_wait_for_it(tmp_path):
    (tmp_path / "mine.py").write_text("from refimpl.transport import Communicator\n"
                                      "comm = Communicator.of(None)\n"
                                      "if comm.rank == 1:\n    1 / 0\n"
                                      "comm.meet()\n")
    job = launch(2, [str(tmp_path / "mine.py")], timeout=100, capture=True)
    assert job.returncode not in (0, None) and job.stderr.count("ZeroDivisionError") == 1


@pytest.mark.parametrize("early", [[1], []], ids=["early", "together"])
def test_a_rank_whose_program_ends_early_is_named_at_once(early):
    """At the default time-out of 300 s. Where no rank ends early, one may end long after the others."""
    program = ("import sys, time; from refimpl.transport import Communicator; comm = Communicator.of(); comm.meet()\n"
               f"if comm.rank in {early}: sys.exit()\n"
               "comm.gather_numbers([comm.rank], 'step 7'); comm.gather_ledger([])\n"
               "comm.rank == 0 and time.sleep(1)")
    job = launch(3, ["-c", program], timeout=100, capture=True)
    assert (job.returncode != 0) == bool(early)
    assert job.stderr.count("refimpl: error: the program of rank 1 has ended, and the other ranks go on with step 7. "
                            "Every rank must make the same calls") == 2 * len(early)


def test_mpi_ends_though_nobody_has_taken_a_message():
    """Otherwise MPICH's MPI_Finalize fails, and the launcher's status depends on which rank ends first."""
    program = ("import atexit; from mpi4py import MPI; from refimpl.transport import Communicator\n"
               "atexit.register(lambda: (MPI.Finalize(), print('ended')))\n"
               "comm = Communicator.of(); comm.meet()\n"
               "if comm.rank == 0: sent = [comm.mpi.isend('for nobody', other, 7) for other in (1, 2)]")
    job = launch(3, ["-c", program], timeout=100, capture=True)
    assert (job.returncode, job.stdout.count("ended"), job.stderr) == (0, 3, "")


def test_a_rank_that_ends_the_job_ends_those_that_sleep(monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "")
    program = ("import time; from refimpl.transport.job import all_ranks, end_job; comm = all_ranks(); "
               "comm.Barrier(); comm.rank == 1 and (print('its last words'), end_job(7)); time.sleep(60)")
    begin = time.monotonic()
    job = launch(2, ["-c", program], timeout=50, capture=True)
    assert job.returncode == 7 and time.monotonic() - begin < 40 and job.stdout == "its last words\n"
