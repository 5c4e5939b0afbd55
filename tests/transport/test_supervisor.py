"""A rank that cannot speak for itself has a supervisor, which names it and the cause, and ends what does not end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import gone

from refimpl.transport.job.host import JOB_VARIABLES
from refimpl.transport.launch import mpirun_command, run_job

ROOT = str(Path(__file__).parents[2])
HEADER = """
import os, signal, sys, time
from refimpl.transport.job.supervisor import alive, arrived, supervised, told, waiting
from refimpl.transport.job.host import JOB_VARIABLES
rank = next(int(os.environ[name]) for name in JOB_VARIABLES if name in os.environ)
def alone():
    os.write(1, b"pid %d %d\\n" % (os.getpid(), os.getppid()))
def together():
    from mpi4py import MPI
    alone()
    MPI.COMM_WORLD.Barrier()
"""


def run(body, ranks=2, timeout=60):
    """Return a job of ``ranks`` whose work is ``body``, how long it took, and the processes that said who they are."""
    code = HEADER + "def work():\n" + "".join(f"    {line}\n" for line in body.strip().splitlines())
    argv, environment = mpirun_command(ranks, ["-c", code + "sys.exit(supervised(work))"])
    begin = time.monotonic()
    job = run_job(argv, {**environment, "PYTHONPATH": ROOT}, timeout, capture=True)
    pids = [int(pid) for line in job.stdout.splitlines() if line.startswith("pid ") for pid in line.split()[1:]]
    return job, time.monotonic() - begin, pids


DEATHS = {
    "os._exit(0)": "it ended with status 0, in the midst of the program (os._exit?)",
    "os._exit(3)": "it ended with status 3, in the midst of the program (os._exit?)",
    "os.kill(os.getpid(), signal.SIGKILL)": "killed by SIGKILL (by someone, or out of memory?)",
    "os.kill(os.getpid(), signal.SIGSEGV)": "killed by SIGSEGV",
}


@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.thorough("SIGKILL", "_exit(0)")
def test_a_rank_that_ends_without_a_word_is_named_and_ends_the_job(death):
    job, seconds, pids = run(f"together()\nif rank == 1: {death}\ntime.sleep(600)")
    assert job.returncode != 0 and seconds < 30
    assert f"refimpl: error: rank 1: {DEATHS[death]}" in job.stderr
    assert job.stderr.count("refimpl: error:") == 1  # the others, which the launcher kills, are not blamed
    assert len(pids) == 4 and gone(pids)


@pytest.mark.parametrize("where", ["MPI_Init", "MPI_Finalize"])
def test_a_rank_that_mpi_does_not_let_go_on_is_ended(where):
    """No Python runs there: the other rank is stopped, or anywhere else in its program."""
    bodies = {"MPI_Init": "if rank: time.sleep(600)\nwaiting(1.0, 'MPI_Init')\ntogether()\narrived()\nreturn 0",
              "MPI_Finalize": "together()\nif rank: time.sleep(600)\nwaiting(1.0, 'MPI_Finalize')\nreturn 0"}
    job, seconds, pids = run(bodies[where])
    assert job.returncode != 0 and seconds < 30
    assert f"refimpl: error: rank 0 has waited 1.0 s for the other ranks in {where}. The other ranks may" in job.stderr
    assert gone(pids)


def test_what_has_come_is_waited_for_no_more():
    job, _, pids = run("waiting(1.0, 'MPI_Init')\ntogether()\narrived()\ntime.sleep(2)\nreturn 0")
    assert job.returncode == 0 and "error" not in job.stderr and gone(pids)


@pytest.mark.parametrize("silent", ["time.sleep(600)", "os.kill(os.getpid(), signal.SIGSTOP)"])
@pytest.mark.thorough("SIGSTOP")
def test_a_rank_that_gives_no_sign_of_life_any_more_is_ended(silent):
    job, seconds, pids = run(f"alone()\nfor _ in range(4):\n  alive(1.0)\n  time.sleep(0.5)\nif rank: {silent}\n"
                             "alive(60.0)\ntime.sleep(600)")
    assert job.returncode != 0 and 2.5 <= seconds < 30
    assert "rank 1 gave no sign of life for 1 s, and was ended" in job.stderr and gone(pids)


@pytest.mark.parametrize("supervisor", ["works", "is stopped, too"])
@pytest.mark.thorough("too")
def test_who_is_stopped_too_long_does_nothing_more(supervisor):
    stop = "os.kill(os.getppid(), signal.SIGSTOP)\n" * (supervisor != "works")
    code = f"sleep 3; kill -CONT {{os.getpid()}}; sleep 1; kill -CONT {{os.getppid()}}"
    job, _, _ = run("import subprocess\nalive(1.0)\n"
                    f"subprocess.Popen(['sh', '-c', f'{code}'], start_new_session=True)\n{stop}os.kill(os.getpid(), signal.SIGSTOP)\nos.write(1, b'it goes on')", ranks=1)
    assert job.returncode != 0 and "it goes on" not in job.stdout and "refimpl: error: rank 0" in job.stderr


def test_who_has_said_why_it_ends_is_not_named_again():
    job, _, _ = run("alone()\nsys.stderr.write('no\\n')\nsys.exit(3)", ranks=1)
    assert job.returncode == 3 and "refimpl: error" not in job.stderr


def test_a_stopped_supervisor_goes_on_when_its_rank_ends():
    job, seconds, pids = run("together()\nif rank: os.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(1)\nreturn 0")
    assert job.returncode == 0 and seconds < 30 and gone(pids)


@pytest.mark.parametrize("who", ["launcher", "supervisor"])
def test_each_ends_with_the_one_above_it(who):
    """However that ends: nobody goes on unseen."""
    pid = {"launcher": "int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])",
           "supervisor": "os.getppid()"}[who]
    job, seconds, pids = run(f"alone()\nif rank: os.kill({pid}, signal.SIGKILL)\ntime.sleep(600)")
    assert job.returncode != 0 and seconds < 30 and gone(pids)


def test_signals_are_handed_on():
    job, _, _ = run("signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'heard\\n'), sys.exit(0)))\n"
                    "os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(60)", ranks=1)
    assert job.returncode == 0 and "heard" in job.stdout


def test_who_was_started_by_no_launcher_has_none_and_is_no_rank():
    code = ("import os, sys; from refimpl.transport.job import end_job, supervisor; "
            "print(supervisor.supervised(os.getppid), end_job(5), 'mpi4py' in sys.modules)")
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           env={**os.environ, "PYTHONPATH": ROOT})
    assert alone.stdout.split() == [str(os.getpid()), "5", "False"], alone.stderr


LAUNCHER = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank = subprocess.Popen([sys.executable, "-c", sys.argv[1]], env={**os.environ, sys.argv[2]: "0"})
print("the rank has ended with", rank.wait(), flush=True)
time.sleep(float(sys.argv[3]))
"""


@pytest.mark.parametrize("stays, status", [(600, -signal.SIGKILL), (0, 0)])
def test_a_launcher_that_does_not_end_is_ended(stays, status):
    """Open MPI's has been seen to stay, after several ranks were killed at once; this one ignores SIGTERM, too."""
    body = ("from refimpl.transport.job import supervisor\nsupervisor.LAUNCHER_SECONDS = 0.2\n"
            "supervisor.supervised(lambda: supervisor.os._exit(3))")
    begin = time.monotonic()
    job = subprocess.run([sys.executable, "-c", LAUNCHER, body, JOB_VARIABLES[0], str(stays)], capture_output=True,
                         text=True, timeout=60, env={**os.environ, "PYTHONPATH": ROOT})  # so pipes are closed, too
    assert job.returncode == status and time.monotonic() - begin < 30
    assert "the rank has ended with 3" in job.stdout and "refimpl: error: rank 0: it ended with status 3" in job.stderr
