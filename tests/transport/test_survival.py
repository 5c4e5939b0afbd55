"""A rank is killed, and the others go on over a communicator of their own. Open MPI alone can this.

    make test-survive
"""

import re
from pathlib import Path

import pytest

from refimpl.transport.launch import launch, runtime

pytestmark = pytest.mark.skipif(runtime().flavour != "openmpi", reason="needs an MPI that outlives its ranks: Open MPI")
TIMEOUT = 5  # longer than a process that is ready waits for a core
HEARTBEATS = {"OMPI_MCA_mpi_ft_detector_timeout": str(1.25 * TIMEOUT), "OMPI_MCA_mpi_ft_detector_period": "0.5"}
CODE = f"TIMEOUT = {TIMEOUT}" + """
import os, signal, subprocess, sys, time
import numpy as np
from refimpl.transport.job.supervisor import supervised, watch_heartbeats

def work():
    watch_heartbeats(TIMEOUT)
    from refimpl.transport.memory.shared_memory import SharedWindow
    from refimpl.transport.survival import SurvivingCommunicator, check_survival, is_death
    way, victim, stopped = (*sys.argv[1:], "")[:3]
    comm = SurvivingCommunicator.of(timeout=TIMEOUT)
    check_survival(comm)
    window, met = SharedWindow.open(comm, 8, "a window"), []

    def step(number):
        if number == 5 and comm.starters[comm.rank] == int(victim):
            if not stopped:
                os.kill(os.getpid(), signal.SIGKILL)
            if stopped == "until the others have gone on":
                wake = f"sleep {3 * TIMEOUT}; kill -CONT {os.getpid()}; sleep 1; kill -CONT {os.getppid()}"
                subprocess.Popen(["sh", "-c", wake],
                                 start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for pid in [os.getpid()] if stopped == "alone" else [os.getppid(), os.getpid()]:
                os.kill(pid, signal.SIGSTOP)
        if stopped == "until the others have gone on" and comm.size == 2:
            time.sleep(0.6 * TIMEOUT)
        if way == "messages of a late rank":
            if number == 5 and comm.starters[comm.rank] == 2:
                subprocess.Popen(["sh", "-c", f"sleep 1; kill -CONT {os.getpid()}"])
                os.kill(os.getpid(), signal.SIGSTOP)  # until the others have given up these messages
            comm.share(np.full(3000, number), "rows")
        if way == "messages":
            sent, came = np.full(100_000, number), np.empty(100_000, np.int64)
            comm.exchange([((comm.rank + 1) % comm.size, sent, {"": sent.size})],
                          [((comm.rank - 1) % comm.size, came, {"": came.size})], "ring", "rows")
            assert (came == number).all()
        elif way == "agreement":
            comm.agree()
        elif way == "shared memory":
            window.reach(True)
        elif way == "error":
            comm.agree(ValueError("the second mistake") if number == 9 else None)
        return True

    number = 0
    while number < 10:
        done = False
        try:
            with comm.one_end():
                done = step(number)
        except BaseException as error:
            if not is_death(error):
                raise
        if comm.agreed(done):
            number += 1
            continue
        comm = comm.without_the_dead()
        window = SharedWindow.open(comm, 8, "a window")
    os.write(1, f"starter {comm.starters[comm.rank]} is {comm.rank} of {comm.machines}\\n".encode())
    comm.leave()

if __name__ == "__main__":
    sys.exit(supervised(work))
"""


@pytest.fixture
def job(tmp_path):
    (tmp_path / "ranks.py").write_text(CODE)
    return lambda *arguments, **variables: launch(
        3, [str(tmp_path / "ranks.py"), *arguments], timeout=90, capture=True, survive=True,
        environment={"PYTHONPATH": str(Path(__file__).parents[2]), **variables})


@pytest.mark.parametrize("way, victim", [("messages", 1), ("messages of a late rank", 1), ("agreement", 0),
                                         ("shared memory", 2)])
def test_the_others_go_on(job, way, victim):
    done = job(way, str(victim))
    left = [starter for starter in range(3) if starter != victim]
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(re.findall(r"starter (\d) is (\d) of (.*)", done.stdout)) == [
        (str(starter), str(rank), "((0, 1),)") for rank, starter in enumerate(left)]
    assert f"refimpl: rank {victim}: killed by SIGKILL" in done.stderr


@pytest.mark.parametrize("stopped", ["alone", "with its supervisor", "until the others have gone on"])
def test_a_stopped_rank_is_given_up_and_never_mixed_in(job, stopped):
    done = job("messages", "1", stopped, **HEARTBEATS)
    assert sorted(re.findall(r"starter (\d)", done.stdout)) == ["0", "2"], done.stdout + done.stderr
    if stopped != "with its supervisor":  # then nobody can say anything
        words = r"gave no sign of life for 5 s, and was ended|killed by SIGALRM \(it came back after the others"
        assert re.search(f"refimpl: rank 1:? ({words})", done.stderr), done.stdout + done.stderr


def test_an_error_of_the_ranks_own_still_ends_all(job):
    done = job("error", "0")  # its status is not looked at: see docs/survival.md, "A cable that is cut"
    assert "the second mistake" in done.stderr, done.stdout + done.stderr
    assert "starter" not in done.stdout  # no rank has come to the end
