"""A peer that ends or never comes is an error, not a hang: each in a job of its own."""

import os
import time
from pathlib import Path

import pytest

from refimpl.transport.launch import launch

HEADER = """
import os, signal, sys, time
import numpy as np
from mpi4py import MPI
from refimpl.collectives import make_schedule
from refimpl.collectives.running.runner import Runner
from refimpl.transport import Communicator
from refimpl.transport.waiting import SilentPeer
communicator = Communicator(patience=1.0)
os.write(1, b"pid %d\\n" % os.getpid())
def allreduce(elements=4_000_000):
    vector = np.zeros(elements, np.float32)
    schedule = make_schedule("direct", communicator.size, communicator.size)
    Runner(schedule, communicator, elements, vector, "step", lambda start, stop: {})([vector])
"""


def _job(body, ranks=3):
    start = time.monotonic()
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    job = launch(ranks, ["-c", HEADER + body], timeout=60, capture=True, environment={"PYTHONPATH": paths})
    return job, time.monotonic() - start


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _nobody_left(job):
    ranks = [int(line.split()[1]) for line in job.stdout.splitlines() if line.startswith("pid ")]
    end = time.monotonic() + 10
    while any(map(_alive, ranks)) and time.monotonic() < end:
        time.sleep(0.05)
    return len(ranks) == 3 and not any(map(_alive, ranks))


def test_a_rank_that_is_killed_in_the_middle_ends_the_job():
    job, seconds = _job("""
allreduce()
if communicator.rank == 1:
    signal.setitimer(signal.ITIMER_REAL, 0.05)  # SIGALRM: as sudden as SIGKILL, and in the middle of what follows
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
communicator.patience = 300
while True:
    allreduce()
""")
    assert job.returncode != 0 and seconds < 30
    assert _nobody_left(job)


@pytest.mark.parametrize("meeting, what", [
    ("allreduce()", "step by direct"),
    ("communicator.share(np.zeros(3), 'places')", "places (control)"),
])
def test_a_rank_that_never_comes_is_named(meeting, what):
    job, seconds = _job(f"""
if communicator.rank == 1:
    time.sleep(600)
try:
    {meeting}
except SilentPeer as error:
    os.write(2, f"said: {{error}}\\n".encode())
    time.sleep(1)  # for the other to say it, too
    raise
""")
    assert job.returncode != 0 and seconds < 30
    for rank in (0, 2):
        assert f"said: rank {rank} has waited 1 s for rank 1 in {what}" in job.stderr
    assert _nobody_left(job)


@pytest.mark.parametrize("missing, names", [([1], "rank 1"), ([1, 2], "ranks 1, 2")])
def test_a_rank_that_never_agrees_is_named(missing, names):
    """MPI's collectives do not say who is missing: those who wait call the roll."""
    job, seconds = _job(f"""
if communicator.rank in {missing}:
    time.sleep(600)
try:
    communicator.agree()
except SilentPeer as error:
    os.write(2, f"said: {{error}}\\n".encode())
    time.sleep(1)  # for the other to say it, too: the first that raises ends the job
    raise
""")
    assert job.returncode != 0 and seconds < 30
    assert f"said: rank 0 has waited 1 s for {names} in the check that all ranks go on" in job.stderr
    assert _nobody_left(job)


def test_a_rank_that_never_agrees_is_an_error():
    job, seconds = _job("""
if communicator.rank == 1:
    time.sleep(600)
communicator.together(lambda: communicator.share(np.zeros(3), "places") if communicator.rank == 0 else None)
""")
    assert job.returncode != 0 and seconds < 30
    assert "has waited 1 s for rank 1 in the check that all ranks go on" in job.stderr or \
        "rank 0 has waited 1 s for ranks 1, 2 in places" in job.stderr
    assert _nobody_left(job)
