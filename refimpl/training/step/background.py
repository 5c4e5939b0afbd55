"""One thread that does a rank's exchanges in a fixed order while the rank computes.

All ranks must do the same exchanges in the same order, however fast each computes. So the jobs of a step are known when
it begins. A job that needs results of the computation begins when this rank releases it. A rank whose computation has
failed releases all jobs and takes part in them, so that no rank waits for it.
"""

import contextvars
import threading
from typing import Any, Callable

from refimpl.training.step.streams import OneLine
from refimpl.transport import Aborted, SilentPeer


class Job:
    """A task of the thread. work() -> result.

    awaited: whether it waits for ``release``.
    ready, ended: GPU events (see ``streams``): the work follows ``ready``, and ``ended`` follows the work.
    """

    def __init__(self, work: Callable[[], Any], awaited: bool = False):
        self.work, self.awaited = work, awaited
        self.released, self.done = threading.Event(), threading.Event()
        self.result: Any = None
        self.ready: Any = None
        self.ended: Any = None

    def release(self, ready=None):
        """Allow the job to begin when the jobs before it are done."""
        if not self.released.is_set():
            self.ready = ready
            self.released.set()


class Background:
    """Runs jobs one after the other in a separate thread. Collective: all ranks give it the same jobs.

    Between ``start`` and ``finish`` this thread calls MPI; no other thread of the rank may use the communicator.

    On a GPU the thread launches its work on the stream of exchanges. A rank that waits for its GPU may wait for a
    peer's data there, without a time-out. So while the thread is idle it watches the peers (``Communicator.settle``),
    and gives up the exchange if their data do not arrive.
    """

    def __init__(self, comm, jobs: list[Job], timeline, streams: OneLine = OneLine()):
        self.comm, self.jobs, self.timeline, self.streams = comm, jobs, timeline, streams
        self.failure: BaseException | None = None  # what ended the thread
        context = contextvars.copy_context()  # np.errstate holds here too
        self.thread = threading.Thread(target=context.run, args=(self._run,), name="exchange", daemon=True)

    def start(self):
        """Begin the first job."""
        self.streams.meet()
        self.thread.start()

    def wait(self, job: Job):
        """Wait until a job is done; return its result, or raise the error that ended the thread.

        On a GPU a job is done when its work is launched; then the current stream waits for it.
        """
        if not job.done.is_set():
            self.comm.stay_one()  # this thread is not in a child
            with self.timeline.phase("waiting for exchange"):
                job.done.wait()
        if self.failure is not None:
            raise self.failure
        self.streams.after(job.ended)
        return job.result

    def finish(self):
        """Wait for the last job; raise the error that ended the thread, if any. Then the communicator is free."""
        with self.timeline.phase("waiting for exchange"):
            self.thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self):
        try:
            if self.comm.device_transport is not None:
                self.comm.device_transport.device.use()  # each thread has a GPU of its own
            with self.streams.beside():
                for job in self.jobs:
                    if job.awaited:
                        self._await(job)
                    job.result = self._do(job)
                    job.ended = self.streams.mark()
                    job.done.set()
        except BaseException as problem:
            self.failure = problem
            if isinstance(problem, (SilentPeer, Aborted)) and self.comm.device_transport is not None:
                self.comm.device_transport.close()
        finally:
            for job in self.jobs:
                job.done.set()

    def _await(self, job):
        if not job.released.is_set():
            self.comm.settle(job.released.is_set)
        job.released.wait()
        self.streams.after(job.ready)

    def _do(self, job):
        try:
            return job.work()
        except BaseException as problem:
            self.comm.stop(problem)
        finally:
            del job.work  # it may hold who holds the job
