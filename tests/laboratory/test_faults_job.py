"""A watched job: what hangs, what is left running, what is left in shared memory is seen, and nothing of it remains."""

import os
import signal
import sys
import time
import uuid

import pytest

from faults.job import Job
from faults.processes import SHARED_MEMORY, Finder, Process, targets_of

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds a job's processes in /proc")
LEAVE_A_PROCESS = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""


def follow(code, place, seconds=10.0, deed=lambda job: None):
    """Return what is seen of a program, and the processes of it that are there afterwards."""
    with Job([sys.executable, "-c", code], dict(os.environ), place) as job:
        deed(job)
        since = time.monotonic()
        ended = job.wait_until_gone(seconds) or job.launcher.poll() is not None
        seen = job.seen(since, ended)
    return seen, job.finder.living()


def test_an_ordinary_end(tmp_path):
    seen, left = follow("print('yes'); raise SystemExit(3)", tmp_path)
    assert (seen.status, seen.stdout, seen.ended, seen.left, left) == (3, "yes\n", True, [], [])


def test_a_hang_is_seen_and_ended(tmp_path):
    seen, left = follow("import time; time.sleep(600)", tmp_path, seconds=0.5)
    assert not seen.ended and seen.status is None and len(seen.left) == 1 and left == []


def test_one_that_ignores_every_signal_or_is_stopped_is_ended(tmp_path):
    code = "import os, signal; signal.signal(15, signal.SIG_IGN); os.kill(os.getpid(), signal.SIGSTOP)"
    seen, left = follow(code, tmp_path, seconds=1.0)
    assert not seen.ended and left == []


def test_a_process_that_is_left_behind_is_seen_and_ended_whatever_its_session(tmp_path):
    seen, left = follow(LEAVE_A_PROCESS, tmp_path, seconds=2.0)
    assert seen.ended and seen.status == 0 and len(seen.left) == 1 and left == []


@pytest.mark.skipif(not SHARED_MEMORY.exists(), reason="no /dev/shm")
def test_a_file_that_is_left_in_shared_memory_is_seen_and_one_that_is_removed_is_not(tmp_path):
    # by name: jobs of other tests, which run at the same time, leave files of theirs
    kept, removed = f"planted_{uuid.uuid4().hex}", f"planted_{uuid.uuid4().hex}"
    try:
        seen, _ = follow(f"import os\nfor name in '{kept}', '{removed}': open('/dev/shm/' + name, 'w').write('x')\n"
                         f"os.unlink('/dev/shm/{removed}')", tmp_path)
        assert kept in seen.shared and removed not in seen.shared
    finally:
        (SHARED_MEMORY / kept).unlink()


def test_a_signal_finds_its_target_at_its_moment(tmp_path):
    code = "import os, time; open(os.environ['REFIMPL_FAULTS_MARKS'], 'a').write('step 3\\n'); time.sleep(600)"

    def deed(job):
        assert job.wait_for(lambda: job.marked("step 3")) and not job.marked("step 3", "evaluate")
        assert job.send(signal.SIGKILL, "rank 0") is False  # it has no ranks
        assert job.send(signal.SIGKILL, "proxy")  # nor a proxy: the launcher

    seen, _ = follow(code, tmp_path, deed=deed)
    assert seen.ended and seen.status == -signal.SIGKILL and seen.seconds < 5


def test_the_targets_of_a_job():
    found = [Process(1, 0, "S", "mpiexec.hydra", None), Process(2, 1, "S", "hydra_pmi_proxy", None),
             Process(3, 2, "R", "python", 0), Process(4, 2, "R", "python", 1), Process(5, 4, "R", "python", 1),
             Process(6, 5, "S", "python", 1)]
    assert targets_of(found, 1) == {"rank 0": 3, "supervisor 0": 3, "rank 1": 5, "supervisor 1": 4, "launcher": 1,
                                    "proxy": 2}


def test_nobody_elses_process_is_found():
    assert Finder(uuid.uuid4().hex).living() == []
