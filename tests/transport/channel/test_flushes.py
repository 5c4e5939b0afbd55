"""A flush that its target keeps waiting: it is awaited, and after the time-out the target is named."""

import pytest

from refimpl.experiments.cluster import missing, run_on_cluster
from refimpl.transport.launch import launch, runtime

PROGRAM = """
import sys, time
import numpy as np
from refimpl.transport import Communicator
from refimpl.transport.channel.rma import RmaChannel
from refimpl.transport.channel.slots import TensorSlot

class Stuck:
    def __init__(self, window):
        self.window = window

    def Flush(self, rank):
        time.sleep(asleep if rank == 1 and comm.rank == 0 else 0)
        self.window.Flush(rank)

    def __getattr__(self, name):
        return getattr(self.window, name)

class Channel(RmaChannel):
    def allocate(self, nbytes):
        window = super().allocate(nbytes)
        return Stuck(window) if emulated else window

asleep, emulated, comm = float(sys.argv[1]), sys.argv[2] == "emulated", Communicator.of(None, 1.0)
channel = Channel.open(comm, [TensorSlot("x", 0, 1, "float64", (4,))])
comm.timeout = 20.0 if comm.rank or asleep < 3 else 1.0
if comm.rank == 0:
    begin = time.monotonic()
    channel.put_signal("x", np.ones(4))
    print(f"waited {time.monotonic() - begin}", flush=True)
else:
    if not emulated:
        time.sleep(asleep)
    channel.wait_signal("x")
    channel.release("x")
channel.close()
"""
NAMED = "refimpl: error: rank 0 has waited 1 s for rank 1 in slot x (to let a put in). Rank 1 may have crashed"


def test_who_keeps_a_flush_waiting_is_named():
    job = launch(2, ["-c", PROGRAM, "30", "emulated"], timeout=25, capture=True)
    assert job.returncode != 0 and NAMED in job.stderr


def test_a_flush_that_ends_in_time_is_awaited():
    job = launch(2, ["-c", PROGRAM, "0.5", "emulated"], timeout=60, capture=True)
    assert job.returncode == 0, job.stderr
    assert 1.0 <= float(job.stdout.split()[-1]) < 10  # payload and signal


@pytest.mark.thorough
@pytest.mark.parametrize("asleep", [2, 30])
def test_between_machines_a_reader_outside_mpi_is_waited_for(asleep):
    if reason := missing():
        pytest.skip(f"no cluster here: {reason}")
    if runtime().flavour != "mpich":
        pytest.skip("Open MPI 5.0.11 lets a put in without its target there")
    job = run_on_cluster(2, 1, "200mbit", ["-c", PROGRAM, str(asleep), "real"], 60, True)
    if asleep == 30:
        assert job.returncode != 0 and NAMED in job.stderr
    else:
        assert job.returncode == 0 and 1.5 < float(job.stdout.split()[-1]) < 10
