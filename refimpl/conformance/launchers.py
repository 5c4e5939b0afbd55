"""Ways to start an adapter's ranks: under MPI, or as processes that find each other as torchrun's do."""

import os
import signal
import socket
import subprocess
import sys
import time

ENDED = "ended"


def start(launcher: str, ranks: int, arguments: list[str], timeout: float) -> str:
    """Run ``python *arguments`` on ``ranks`` ranks to their end. Returns "", or how they ended. Local.

    A job that is still running after ``timeout`` seconds is ended. No rank is left behind.
    """
    return {"mpi": _mpi, "processes": _processes}[launcher](ranks, arguments, timeout)


def _mpi(ranks, arguments, timeout) -> str:
    from refimpl.experiments.launch import launch

    try:
        job = launch(ranks, arguments, timeout=timeout, capture=True)
    except subprocess.TimeoutExpired:
        return f"still running after {timeout:g} s"
    return "" if job.returncode == 0 else _last_lines(job.stderr) or f"exit status {job.returncode}"


def _processes(ranks, arguments, timeout) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = {**os.environ, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    jobs = [subprocess.Popen([sys.executable, *arguments], env={**base, "RANK": str(r), "LOCAL_RANK": str(r)},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             start_new_session=True) for r in range(ranks)]
    try:
        return _watch(jobs, time.monotonic() + timeout, timeout)
    finally:
        for job in jobs:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.communicate()


def _watch(jobs, end, timeout) -> str:
    """Wait for all; where one fails the others get a moment to fail too."""
    while any(job.poll() is None for job in jobs):
        if any(job.poll() for job in jobs):
            end = min(end, time.monotonic() + 2.0)
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    failed = [job for job in jobs if job.poll()]
    if failed:
        return _last_lines(failed[0].stdout.read()) or f"exit status {failed[0].returncode}"
    return f"still running after {timeout:g} s" if any(job.poll() is None for job in jobs) else ""


def _last_lines(text: str, most: int = 3) -> str:
    return "\n".join(text.strip().splitlines()[-most:])
