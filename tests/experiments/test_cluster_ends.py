"""However the command ends, no process, namespace, mount or shared memory of its cluster stays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refimpl.experiments.cluster import missing, run_on_cluster

TOKEN = "REFIMPL_TEST_CLUSTER"  # every process of a cluster inherits it, so all can be found from outside
SLEEPER = ("from mpi4py import MPI; import os, time; from pathlib import Path; "
           f"Path('/dev/shm', os.environ['{TOKEN}']).touch(); os.write(1, b'x'); time.sleep(600)")


@pytest.fixture(scope="module", autouse=True)
def cluster():
    if reason := missing():
        pytest.skip(f"no cluster here: {reason}")


def processes(token: str) -> set[int]:
    """Return the ids of the processes whose environment holds the token (zombies have none)."""
    wanted = f"{TOKEN}={token}".encode()
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                found.add(int(path.parent.name))
        except OSError:
            pass
    return found


def networks(pids=None) -> set[str]:
    """Return the network namespaces of these processes, or of all."""
    found = set()
    for pid in pids if pids is not None else (p.name for p in Path("/proc").glob("[0-9]*")):
        try:
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
        except OSError:
            pass
    return found


def assert_nothing_left(token, theirs, mounts):
    end = time.monotonic() + 10
    while (processes(token) or networks() & theirs) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes(token) == set() and networks() & theirs == set()
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not Path("/dev/shm", token).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_command_leaves_nothing(number):
    token = f"{os.getpid()}-{number}"
    mounts = Path("/proc/self/mounts").read_text()
    argv = [sys.executable, "-m", "refimpl", "cluster", "--machines", "3", "--rate", "1gbit", "--", "-c", SLEEPER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, TOKEN: token}) as command:
        assert command.stdout.read(3) == b"xxx"
        here = networks([os.getpid()])
        theirs = networks(processes(token)) - here
        assert len(theirs) == 4  # the checker sees them: the hub's and those of three machines
        command.send_signal(number)
        assert command.wait(20) != 0
    assert_nothing_left(token, theirs, mounts)


def test_timeout_and_normal_end_leave_nothing():
    token = f"{os.getpid()}-timeout"
    mounts = Path("/proc/self/mounts").read_text()
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        run_on_cluster(2, 1, "1gbit", ["-c", SLEEPER], timeout=4, capture=True, environment={TOKEN: token})
    assert expired.value.output.startswith("xx")
    assert_nothing_left(token, set(), mounts)
    stray = "import subprocess; s = subprocess.DEVNULL; subprocess.Popen(['sleep', '600'], stdout=s, stderr=s)"
    assert run_on_cluster(2, 1, "1gbit", ["-c", stray], timeout=60, environment={TOKEN: token}).returncode == 0
    assert_nothing_left(token, set(), mounts)
