"""A peer that ends or never comes is an error, not a hang: each in a job of its own."""

import os
import sys
import time
from pathlib import Path

import pytest
from processes import gone

from refimpl.transport.launch import mpirun_command, run_job

HEADER = """
import os, signal, sys, threading, time
import numpy as np
from mpi4py import MPI
from refimpl.collectives import make_schedule
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.collectives.running.shared import SharedRunner
from refimpl.transport import Communicator, SilentPeer
from refimpl.transport.memory import peer_memory, shared_memory
os.write(1, b"pid %d\\n" % os.getpid())
def ready(elements=4_000_000):
    vector = np.zeros(elements, np.float32)
    schedule = make_schedule("direct", communicator.size, communicator.size)
    runner = ScheduleRunner(schedule, communicator, elements, vector, "step", lambda start, stop: {})
    return lambda: runner([vector])
def allreduce():
    ready()()
def share_memory(elements=4_000_000):
    schedule, like = make_schedule("direct", communicator.size, communicator.size), np.empty(0, np.float32)
    return SharedRunner.open(schedule, communicator, elements, like, "step", lambda start, stop: {})
def sleep(*_):
    time.sleep(600)
def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)
def told(work):
    try:
        work()
    except SilentPeer as error:
        os.write(2, f"said: {error}\\n".encode())
        time.sleep(1)  # for the other to say it, too: the first that raises ends the job
        raise
MPI.COMM_WORLD.Barrier()  # all have imported
"""
OPENED = "communicator = Communicator.of(timeout=1.0)\n"


def _job(body, opened=True, survive=False):
    """Run code on 3 ranks. opened: on a communicator.  survive: mpirun, which would end all, does not see a death."""
    start = time.monotonic()
    root = Path(__file__).parents[2]
    paths = os.pathsep.join(filter(None, (str(root), str(root / "tests/device/standin"), os.environ.get("PYTHONPATH"))))
    argv, environment = mpirun_command(3, ["-c", HEADER + OPENED * opened + body])
    if survive:
        at = argv.index(sys.executable)
        argv[at:at] = ["sh", "-c", '"$@" || { test $? = 137 && sleep 60; }', "sh"]  # 137: by SIGKILL
    job = run_job(argv, {**environment, "PYTHONPATH": paths}, timeout=60, capture=True)
    return job, time.monotonic() - start


def _nobody_left(job):
    ranks = [int(line.split()[1]) for line in job.stdout.splitlines() if line.startswith("pid ")]
    return len(ranks) == 3 and gone(ranks)


@pytest.mark.parametrize("elements", [4_000_000, 4])
def test_a_rank_that_is_killed_in_the_middle_ends_the_job(elements):
    job, seconds = _job(f"""
allreduce = ready({elements})
allreduce()
if communicator.rank == 1:
    signal.setitimer(signal.ITIMER_REAL, 0.05)  # SIGALRM: as sudden as SIGKILL, and in the middle of what follows
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
communicator.timeout = 300
while True:
    allreduce()
""")
    assert job.returncode != 0 and seconds < 30
    assert _nobody_left(job)


@pytest.mark.parametrize("meeting, what", [
    ("allreduce()", "step by direct"),
    ("communicator.share(np.zeros(3), 'places')", "places (control)"),
])
@pytest.mark.thorough("places")
def test_a_rank_that_never_comes_is_named(meeting, what):
    job, seconds = _job(f"""
if communicator.rank == 1:
    time.sleep(600)
told(lambda: {meeting})
""")
    assert job.returncode != 0 and seconds < 30
    for rank in (0, 2):
        assert f"said: rank {rank} has waited 1 s for rank 1 in {what}" in job.stderr
    assert _nobody_left(job)


@pytest.mark.parametrize("missing, names", [([1], "rank 1"), ([1, 2], "ranks 1, 2")])
@pytest.mark.thorough("missing1")
def test_a_rank_that_never_agrees_is_named(missing, names):
    """MPI's collectives do not say who is missing: those who wait call the roll."""
    job, seconds = _job(f"""
if communicator.rank in {missing}:
    time.sleep(600)
told(communicator.agree)
""")
    assert job.returncode != 0 and seconds < 30
    assert f"said: rank 0 has waited 1 s for {names} in the check that all ranks continue" in job.stderr
    assert _nobody_left(job)


@pytest.mark.thorough
def test_a_rank_that_never_agrees_is_an_error():
    job, seconds = _job("""
if communicator.rank == 1:
    time.sleep(600)
communicator.together(lambda: communicator.share(np.zeros(3), "places") if communicator.rank == 0 else None)
""")
    assert job.returncode != 0 and seconds < 30
    assert "has waited 1 s for rank 1 in the check that all ranks continue" in job.stderr or \
        "rank 0 has waited 1 s for ranks 1, 2 in places" in job.stderr
    assert _nobody_left(job)


IN_PLACE = """
runner = share_memory(1000)
def add_up():
    runner()
    runner.release()
add_up()  # what is compiled, is compiled now
def sums():
    for step in range(100):
        if step == 50 and communicator.rank == 1:
            leave()
        add_up()
"""
PRIVATE = """
peer_memory.LONG = 0  # summed where they lie
runner, arrays = share_memory(1_000_000), [np.ones(1_000_000, np.float32)]
runner(arrays)
if communicator.rank == 1:
    threading.Timer(0.2, leave).start()  # at any moment, as others read and write them
def sums():
    while True:
        runner(arrays)
"""


@pytest.mark.parametrize("leave, timeout, sums", [("sleep", 1, IN_PLACE), ("die", 300, IN_PLACE), ("die", 300, PRIVATE)])
@pytest.mark.thorough("sleep")
def test_a_rank_that_leaves_amid_sums_through_shared_memory_ends_the_job(leave, timeout, sums):
    job, seconds = _job(f"communicator.timeout = 60.0; leave = {leave}\n{sums}\n"
                        f"communicator.timeout = {timeout}\ntold(sums)")
    assert job.returncode != 0 and seconds < 45
    assert leave == "die" or "has waited 1 s for rank 1 in step by direct through shared memory" in job.stderr
    assert _nobody_left(job)


SETUPS = {
    "a communicator": (
        "rank == 1 and leave()", "Communicator.of(timeout=1.0)", "the search for ranks that share a machine"),
    "memory that is not mapped": (
        "if rank == 1: shared_memory._map_file = leave", "share_memory()", "the check that all ranks continue"),
    "sums through shared memory": (
        "rank == 1 and leave()", "share_memory()", "step: what is summed"),
    "the trial of peers' memory": (
        "if rank == 1: peer_memory._tried = leave", "share_memory()",
        "the trial whether ranks reach each other's memory"),
    "a communicator of fewer ranks": (
        "rank == 1 and leave()", "communicator.first(2)", "a communicator of 2 ranks"),
    "a device": (
        "rank == 1 and leave()", "communicator.add_device(0, 'staged')", "the check that all ranks continue"),
}
"""What is set up: how rank 1 leaves meanwhile, what all do, what the others wait for."""


@pytest.mark.parametrize("setup, how", list(zip(SETUPS, ["die", "sleep"] * 3)))
@pytest.mark.thorough
def test_a_rank_that_dies_or_never_comes_while_something_is_set_up_is_named(setup, how):
    """Before any call of MPI's that cannot be polled begins: on every other rank, in the words of any other wait."""
    leaving, work, what = SETUPS[setup]
    opened = setup != "a communicator"
    job, seconds = _job(f"""
rank, leave = MPI.COMM_WORLD.rank, {how}
{leaving}
told(lambda: {work})
""", opened, survive=how == "die")
    assert job.returncode != 0 and seconds < 30
    for rank in (0, 2):
        assert f"said: rank {rank} has waited 1 s for rank 1 in {what}. Rank 1 may have" in job.stderr, job.stderr
    assert _nobody_left(job)
