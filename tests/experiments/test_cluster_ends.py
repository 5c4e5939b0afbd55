"""However the command ends, no process, namespace, mount or shared memory of its cluster stays."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.processes import MARK, Finder
from refimpl.experiments.cluster import run_on_cluster

pytestmark = pytest.mark.usefixtures("cluster")

SLEEPER = ("from mpi4py import MPI; import os, time; from pathlib import Path; "
           f"Path('/dev/shm', os.environ['{MARK}']).touch(); os.write(1, b'x'); time.sleep(600)")


def processes(token: str) -> set[int]:
    """Return the ids of a cluster's processes, which all inherit the token: they can be found from outside."""
    return {process.pid for process in Finder(token).living()}


def networks(pids=None) -> set[str]:
    """Return the network namespaces of these processes, or of all."""
    found = set()
    for pid in pids if pids is not None else (p.name for p in Path("/proc").glob("[0-9]*")):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/ns/net"))
    return found


def assert_nothing_left(token, theirs, mounts):
    end = time.monotonic() + 10
    while (processes(token) or networks() & theirs) and time.monotonic() < end:
        time.sleep(0.05)
    assert processes(token) == set() and networks() & theirs == set()
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not Path("/dev/shm", token).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.thorough("15")
def test_killed_command_leaves_nothing(number):
    token = f"{os.getpid()}-{number}"
    mounts = Path("/proc/self/mounts").read_text()
    argv = [sys.executable, "-m", "refimpl", "cluster", "--machines", "3", "--rate", "1gbit", "--", "-c", SLEEPER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ, MARK: token}) as command:
        assert command.stdout.read(3) == b"xxx"
        here = networks([os.getpid()])
        theirs = networks(processes(token)) - here
        assert len(theirs) == 4  # the checker sees them: the hub's and those of three machines
        command.send_signal(number)
        assert command.wait(20) != 0
    assert_nothing_left(token, theirs, mounts)


def parts_of(token) -> dict[str, list[int]]:
    """Return the processes of a cluster by what they do: the hub outside and inside its namespaces, mpirun, ranks."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
             for pid in sorted(processes(token))}
    hubs = [pid for pid, line in lines.items() if " -m refimpl.experiments.cluster.hub " in line]
    inside = [pid for pid in hubs if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid")]
    return {"outer hub": [pid for pid in hubs if pid not in inside],
            "inner hub": inside[:1],  # process 1; the others hold machines
            "mpirun": [pid for pid, line in lines.items() if "mpiexec" in line.partition(" ")[0]],
            "rank": [pid for pid, line in lines.items() if pid not in hubs and " -m mpi4py -c " in line
                     and "mpiexec" not in line]}


@pytest.mark.parametrize("whose", ["outer hub", "inner hub", "mpirun", "rank"])
@pytest.mark.thorough("rank")
def test_killed_part_ends_all(whose):
    token = f"{os.getpid()}-{whose.replace(' ', '-')}"
    mounts = Path("/proc/self/mounts").read_text()
    argv = [sys.executable, "-m", "refimpl", "cluster", "--machines", "2", "--rate", "1gbit", "--", "-c", SLEEPER]
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": {**os.environ, MARK: token}}
    with subprocess.Popen(argv, **piped) as command:
        assert command.stdout.read(2) == b"xx"
        theirs = networks(processes(token)) - networks([os.getpid()])
        try:
            os.kill(parts_of(token)[whose][-1], signal.SIGKILL)
            _, said = command.communicate(timeout=30)
        finally:
            command.kill()
        assert (b"ended from outside" in said) == ("hub" in whose)
        assert command.returncode not in (0, -signal.SIGKILL)  # it ended by itself
    assert_nothing_left(token, theirs, mounts)


@pytest.mark.thorough
def test_timeout_and_normal_end_leave_nothing():
    token = f"{os.getpid()}-timeout"
    mounts = Path("/proc/self/mounts").read_text()
    with pytest.raises(subprocess.TimeoutExpired) as expired:
        run_on_cluster(2, 1, "1gbit", ["-c", SLEEPER], timeout=4, capture=True, environment={MARK: token})
    assert expired.value.output.startswith("xx")
    assert_nothing_left(token, set(), mounts)
    stray = "import subprocess; s = subprocess.DEVNULL; subprocess.Popen(['sleep', '600'], stdout=s, stderr=s)"
    assert run_on_cluster(2, 1, "1gbit", ["-c", stray], timeout=60, environment={MARK: token}).returncode == 0
    assert_nothing_left(token, set(), mounts)
