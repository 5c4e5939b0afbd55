"""The end of a job: of all its ranks at once; where there is no other rank, of nobody else."""

import os
import subprocess
import sys
import time
from pathlib import Path

from refimpl.transport.launch import launch

ROOT = str(Path(__file__).parents[2])


def test_a_rank_that_ends_the_job_ends_those_that_sleep():
    program = ("import time; from refimpl.transport.job import all_ranks, end_job; comm = all_ranks(); "
               "comm.Barrier(); comm.rank == 1 and end_job(7); time.sleep(60)")
    begin = time.monotonic()
    job = launch(2, ["-c", program], timeout=50, capture=True, environment={"PYTHONPATH": ROOT})
    assert job.returncode == 7 and time.monotonic() - begin < 40


def test_a_process_without_mpi_is_no_rank():
    program = "import sys; from refimpl.transport.job import end_job; print(end_job(5), 'mpi4py' in sys.modules)"
    job = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         env={**os.environ, "PYTHONPATH": ROOT})
    assert job.stdout.split() == ["5", "False"], job.stderr
