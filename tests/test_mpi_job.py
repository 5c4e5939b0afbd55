"""The job the MPI tests run in: it has the ranks it was asked for, and a failure on any rank ends it, seen and soon."""

import shutil
import subprocess
import time
from pathlib import Path

import pytest

from refimpl.transport.launch import launch

HEADER = "import time, pytest\nfrom mpi4py import MPI\nrank = MPI.COMM_WORLD.rank\n"


@pytest.mark.mpi
def test_sum_counts_every_rank_once(comm):
    """The base-4 digits of the sum of 4^rank tell who was counted how often."""
    assert comm.allreduce(4**comm.rank) == sum(4**rank for rank in range(comm.size))


@pytest.mark.mpi(min_size=2)
def test_a_test_that_needs_two_ranks_has_them(comm):
    assert comm.size >= 2


@pytest.mark.mpi(min_size=5)
def test_a_job_of_many_ranks_has_a_test(comm):
    assert comm.size >= 5


@pytest.mark.mpi
def test_each_rank_computes_with_one_thread(comm):
    import numpy  # noqa: F401 - loads the BLAS that threadpoolctl asks
    import threadpoolctl

    assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} <= {1}


def _run(folder: Path, body: str, ranks: int = 2, *options: str) -> subprocess.CompletedProcess:
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_planted.py").write_text(HEADER + body)
    quiet = ["-q", "--color=no", "-p", "no:cacheprovider"]  # Open MPI gives rank 0 a terminal: no colours in it
    arguments = ["-m", "pytest", *quiet, "--with-mpi", "-m", "mpi", *options, str(folder)]
    return launch(ranks, arguments, timeout=60, capture=True, cwd=folder)


def test_passing_job_is_reported_once(tmp_path):
    job = _run(tmp_path, "@pytest.mark.mpi\ndef test_good(comm):\n    comm.Barrier()\n")
    assert job.returncode == 0, job.stderr
    assert job.stdout.count("1 passed") == 1


def test_failure_on_one_rank_ends_the_waiting_others(tmp_path):
    body = "@pytest.mark.mpi\ndef test_bad(comm):\n    assert rank != 1, 'planted'\n    comm.Barrier()\n"
    start = time.monotonic()
    job = _run(tmp_path, body, 3)
    assert time.monotonic() - start < 60
    assert job.returncode != 0
    assert "rank 1 of 3" in job.stderr and "AssertionError: planted" in job.stderr


def test_failure_on_every_rank_is_an_ordinary_failure(tmp_path):
    body = (
        "@pytest.mark.mpi\ndef test_bad(comm):\n    assert rank == 7\n"
        "@pytest.mark.mpi\ndef test_good(comm):\n    comm.Barrier()\n"
    )
    job = _run(tmp_path, body, 2)
    assert job.returncode != 0
    assert "1 failed, 1 passed" in job.stdout
    assert "assert 0 == 7" in job.stdout and "rank 1 failed otherwise" in job.stdout and "assert 1 == 7" in job.stdout


@pytest.mark.thorough
def test_failures_in_different_tests_end_the_job(tmp_path):
    body = "".join(f"@pytest.mark.mpi\ndef test_{r}():\n    assert rank != {r}, 'planted {r}'\n" for r in (0, 1))
    job = _run(tmp_path, body, 2)
    assert job.returncode != 0
    assert "planted 0" in job.stderr and "planted 1" in job.stderr


@pytest.mark.thorough
def test_other_tests_on_one_rank_end_the_job(tmp_path):
    body = "if rank == 1:\n    raise OSError('planted')\n@pytest.mark.mpi\ndef test_good(comm):\n    comm.Barrier()\n"
    job = _run(tmp_path, body, 2)
    assert job.returncode != 0
    assert "OSError: planted" in job.stderr and "ranks collected different tests" in job.stderr


@pytest.mark.thorough
def test_rank_that_never_comes_is_timed_out(tmp_path):
    body = (
        "@pytest.mark.mpi\ndef test_slow(comm):\n"
        "    if rank == 1:\n        time.sleep(600)\n    comm.recv(source=1, tag=7)\n"
    )
    start = time.monotonic()
    job = _run(tmp_path, body, 2, "--timeout=2")
    assert time.monotonic() - start < 60
    assert job.returncode != 0
    for rank, place in enumerate(["comm.recv(source=1, tag=7)", "time.sleep(600)"]):
        assert f"rank {rank} of 2: Timeout: test_planted.py::test_slow not done after 2 s" in job.stderr
        assert place in job.stderr


@pytest.mark.thorough
def test_a_job_runs_only_what_is_for_so_many_ranks(tmp_path):
    body = (
        "@pytest.mark.mpi\ndef test_small(comm):\n    pass\n"
        "@pytest.mark.mpi(min_size=5)\ndef test_large(comm):\n    assert comm.size == 5\n"
        "@pytest.mark.ranks(1, 3)\n@pytest.mark.mpi\ndef test_enough(comm):\n    assert comm.size == 1\n"
    )
    assert "1 passed, 2 deselected" in _run(tmp_path, body, 5).stdout
    assert "1 passed, 2 deselected" in _run(tmp_path, body, 2).stdout
    assert "2 passed, 1 deselected" in _run(tmp_path, body, 1).stdout
