"""Ways to start an adapter's ranks: under MPI, or as processes that find each other as torchrun's do."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time


def start(launcher: str, ranks: int, arguments: list[str], timeout: float) -> str:
    """Run ``python *arguments`` on ``ranks`` ranks to their end. Returns "", or how they ended. Local.

    A job that is still running after ``timeout`` seconds is ended. No rank is left behind.
    """
    return {"mpi": _mpi, "processes": _processes}[launcher](ranks, arguments, timeout)


def _mpi(ranks, arguments, timeout) -> str:
    from refimpl.transport.launch import launch

    try:
        job = launch(ranks, arguments, timeout=timeout, capture=True)
    except subprocess.TimeoutExpired:
        return f"still running after {timeout:g} s"
    return "" if job.returncode == 0 else _reason(job.stderr) or f"exit status {job.returncode}"


def _processes(ranks, arguments, timeout) -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = {**os.environ, "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    logs = [tempfile.TemporaryFile("w+") for _ in range(ranks)]
    jobs = [subprocess.Popen([sys.executable, *arguments], env={**base, "RANK": str(r), "LOCAL_RANK": str(r)},
                             stdin=subprocess.DEVNULL, stdout=logs[r], stderr=logs[r], start_new_session=True)
            for r in range(ranks)]
    try:
        first = _watch(jobs, time.monotonic() + timeout)
        if first is None:
            return "" if all(job.poll() == 0 for job in jobs) else f"still running after {timeout:g} s"
        logs[first].seek(0)
        return _reason(logs[first].read()) or f"exit status {jobs[first].returncode}"
    finally:
        for job, log in zip(jobs, logs):
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            log.close()


def _watch(jobs, end) -> int | None:
    """Wait for all, or until ``end``. Return the first that failed, None if none did."""
    first = None
    while any(job.poll() is None for job in jobs) and time.monotonic() < end:
        failed = [r for r, job in enumerate(jobs) if job.poll()]
        if failed and first is None:
            first, end = failed[0], min(end, time.monotonic() + 2.0)  # the others get a moment to fail too
        time.sleep(0.02)
    return first if first is not None else next((r for r, job in enumerate(jobs) if job.poll()), None)


def _reason(text: str) -> str:
    """Return what a job's output ends with; where a rank was in a case for too long, how long and in which call."""
    hung = re.search(r"^Timeout \((.*)\)!\n.*\n +(File .*)", text, re.MULTILINE)
    if hung:
        return f"still running after {hung[1]}, in {hung[2]}"
    return "\n".join(text.strip().splitlines()[-3:])
