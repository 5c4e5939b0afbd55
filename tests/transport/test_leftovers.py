"""What killed jobs leave in shared memory is removed by the next start; what is in use stays."""

import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from refimpl.transport.launch import mpirun_command, run_job, runtime
from refimpl.transport.job.leftovers import MADE_BY_JOBS, MEMORY_FILES, remove_leftovers

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux for leases")
RANK = """
import os, time
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
held = {line.split()[5] for line in open("/proc/self/maps") if " /dev/shm/" in line and "(deleted)" not in line}
os.write(1, " ".join(["rank", str(os.getpid()), str(os.getppid()), *held, "\\n"]).encode())  # in one piece
time.sleep(100)
"""


def held_by_a_job(job):
    """Return (processes of the job below mpirun, files in shared memory that its ranks have mapped, by name)."""
    processes, files = set(), set()
    for _ in range(2):
        _, rank, parent, *held = next(line for line in job.stdout if line.startswith("rank ")).split()
        processes |= {int(rank), int(parent)}
        files |= set(held)
    return processes, {Path(file) for file in files}


def test_what_a_killed_job_left_is_removed_and_what_a_running_one_holds_is_not():
    command, environment = mpirun_command(2, ["-c", RANK])
    job = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        processes, files = held_by_a_job(job)
        remove_leftovers()
        assert all(file.exists() for file in files)
        if runtime().flavour == "mpich":
            assert files and all(MADE_BY_JOBS.fullmatch(file.name) for file in files)
    finally:
        for process in {job.pid, *processes}:
            os.kill(process, signal.SIGKILL)
    job.wait()
    end = time.monotonic() + 60  # of a killed process the memory goes last
    while any(file.exists() for file in files) and time.monotonic() < end:
        run_job([sys.executable, "-c", ""], dict(os.environ))
    assert not [file for file in files if file.exists()]


@pytest.fixture
def folder(tmp_path):
    """A folder in memory of this test's own: what lies beside it, other jobs' starts may remove at any time."""
    with tempfile.TemporaryDirectory(dir=MEMORY_FILES if MEMORY_FILES.is_dir() else tmp_path) as path:
        yield Path(path)


def make(folder, name):
    path = folder / f"{name}{os.getpid():08}"
    path.write_bytes(bytes(mmap.PAGESIZE))
    return path


def other_process(path, how):
    """Start a process that holds the file in this way; return it when it does."""
    holds = {"reads": "file = open(path, 'rb')", "writes": "file = open(path, 'r+b')",
             "maps": "with open(path, 'r+b') as f: file = mmap.mmap(f.fileno(), 0)",
             "maps to read": "with open(path, 'rb') as f: file = mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)"}[how]
    code = f"import mmap, sys\npath = {str(path)!r}\n{holds}\nprint('held', flush=True)\nsys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("how", ["reads", "writes", "maps", "maps to read"])
def test_a_file_in_use_stays_until_nobody_has_it(folder, how):
    path = make(folder, "mpich_shm_test")
    process = other_process(path, how)
    try:
        assert path.name not in remove_leftovers(folder) and path.exists()
    finally:
        process.kill()
        process.communicate()
    assert path.name in remove_leftovers(folder) and not path.exists()


def test_what_no_job_made_stays(folder):
    path = make(folder, "somebody-elses-")
    link = folder / f"mpich_shm_link{os.getpid()}"
    link.symlink_to(path)
    try:
        remove_leftovers(folder)
        assert path.exists() and link.is_symlink()
    finally:
        link.unlink()
        path.unlink()


def test_where_nothing_is_left_it_costs_one_look(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(os, "open", lambda *arguments: opened.append(arguments))
    assert remove_leftovers(tmp_path) == [] and remove_leftovers(tmp_path / "none") == [] and not opened


def test_a_file_that_a_person_may_have_named_stays(folder):
    path = folder / f"refimpl-results-{os.getpid()}.tar"
    path.write_bytes(b"1")
    try:
        remove_leftovers(folder)
        assert path.exists()
    finally:
        path.unlink()
