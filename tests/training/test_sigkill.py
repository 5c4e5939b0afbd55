"""A job is killed with SIGKILL, again and again, at any moment: what it leaves is loadable and goes on, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mpi4py import MPI
from toys import Toy, make_options, toy_data

from refimpl.training.run.checkpoint import read_manifest, steps_saved
from refimpl.training.session import train
from refimpl.transport.launch import mpirun_command

STEPS, KILLS = 200, 4
HERE = Path(__file__).parent


def start(ranks, directory):
    argv, environment = mpirun_command(ranks, [str(HERE / "killed_job.py"), str(directory), str(STEPS)])
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), str(HERE.parents[1]), environment.get("PYTHONPATH", "")])
    return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            start_new_session=True)


def kill(job):
    """Send SIGKILL to every process of the job's session at once."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.getsid(int(entry.name)) == job.pid:
                    os.kill(int(entry.name), signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
    job.communicate()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a job's processes in /proc")
@pytest.mark.thorough
def test_a_job_killed_again_and_again_ends_where_it_would_have(tmp_path):
    directory, chance, reached = tmp_path / "run", random.Random(4), []
    for number in range(KILLS):
        job, before = start(2 + number % 2, directory), max(steps_saved(directory), default=0)
        while max(steps_saved(directory), default=0) < before + 3 and job.poll() is None:
            time.sleep(0.002)
        assert job.poll() is None, job.communicate()[1]
        time.sleep(0.02 * chance.random())  # several steps are made and saved in that time
        kill(job)
        reached.append(read_manifest(directory).step)
        assert before + 3 <= reached[-1] < STEPS
    assert reached == sorted(reached)
    last = start(2, directory)
    output, errors = last.communicate(timeout=100)
    assert last.returncode == 0, errors
    whole = train(Toy(), toy_data(), options=make_options("toy", "adam", steps=STEPS, rate_steps=STEPS),
                  comm=MPI.COMM_SELF)
    assert output.split() == [whole.parameters_sha256, whole.state_sha256]
