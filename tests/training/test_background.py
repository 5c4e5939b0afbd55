"""The exchanging thread: jobs in order, none before its time, and what goes wrong is told."""

import threading
import time

import numpy as np
import pytest

from refimpl.training.run.timeline import Timeline
from refimpl.training.step.background import Background, Job
from refimpl.transport import CollectiveError, SilentPeer


class OneRank:
    """A communicator of one rank."""

    def __init__(self, transport=None):
        self.device_transport = transport

    def stay_one(self):
        pass

    def stop(self, error):
        raise CollectiveError(f"stopped: {error}")

    def settle(self, unless=lambda: False):
        if self.device_transport is not None:
            self.device_transport.settle(unless)


class Device:
    """A transport whose peers do not come while it is silent."""

    device = property(lambda self: self)

    def __init__(self):
        self.settled, self.silent, self.closed = 0, False, False

    def use(self):
        pass

    def settle(self, unless):
        """Nobody comes: wait until there is something else to do, or the time-out ends it."""
        self.settled += 1
        if self.silent:
            raise SilentPeer("rank 1 does not come")
        while not unless():
            time.sleep(0.001)

    def close(self):
        self.closed = True


def started(*jobs, transport=None):
    background = Background(OneRank(transport), list(jobs), Timeline())
    background.start()
    return background


def test_jobs_are_done_in_order_and_not_before_their_time():
    done = []
    jobs = [Job(lambda i=i: done.append(i) or i, awaited=i != 0) for i in range(4)]
    jobs[2].release()
    background = started(*jobs)
    assert background.wait(jobs[0]) == 0
    time.sleep(0.02)
    assert done == [0]  # job 2 must not overtake job 1
    jobs[1].release()
    assert background.wait(jobs[2]) == 2 and done == [0, 1, 2] and not jobs[3].done.is_set()
    jobs[3].release()
    background.finish()
    assert done == [0, 1, 2, 3]
    assert background.timeline.seconds["waiting for exchange"] > 0 and not background.thread.is_alive()


def test_a_failing_job_stops_the_rest_and_is_told():
    jobs = [Job(lambda: 1 / 0), Job(lambda: "never")]
    background = started(*jobs)
    with pytest.raises(CollectiveError, match="stopped: division by zero"):
        background.wait(jobs[1])
    assert jobs[1].result is None


def test_an_idle_thread_has_an_eye_on_what_moves_on_the_device():
    jobs, transport = [Job(lambda: "pulled"), Job(lambda: "pushed", awaited=True)], Device()
    background = started(*jobs, transport=transport)
    while not transport.settled:
        time.sleep(0.001)
    jobs[1].release()
    background.finish()
    assert transport.settled == 1 and not transport.closed  # before it waited for the computation


def test_peers_that_do_not_come_on_the_device_end_the_step():
    """The rank may be waiting for its GPU, which waits for them: that is let go."""
    transport = Device()
    transport.silent = True
    background = started(Job(lambda: "pulled"), Job(lambda: "never", awaited=True), transport=transport)
    with pytest.raises(SilentPeer, match="rank 1 does not come"):
        background.finish()
    assert transport.closed


def test_numpys_error_state_holds_in_the_thread():
    big = np.array([3e38], np.float32)
    with np.errstate(over="raise"):
        background = started(job := Job(lambda: big + big))
        with pytest.raises(CollectiveError, match="overflow"):
            background.wait(job)
    with np.errstate(over="ignore"):
        assert np.isinf(started(job := Job(lambda: big + big)).wait(job))


def test_the_thread_is_named_and_does_not_hold_up_the_end():
    background = started(Job(lambda: threading.current_thread().name))
    background.finish()
    assert background.jobs[0].result == "exchange" and background.thread.daemon
