"""One thread that does a rank's exchanges in their order, while the rank computes.

Ranks must do the same exchanges in the same order, whatever each computes meanwhile: so the jobs of a step are known
when it begins. A job that needs something of the computation begins, on every rank, with all ranks agreeing to go on:
one whose computation failed says so there, and all stop at the same job.
"""

import contextvars
import threading
from typing import Any, Callable

from refimpl.training.step.streams import OneLine
from refimpl.transport import Aborted, SilentPeer


class Job:
    """Something that the thread does. work() -> result.

    awaited: whether it must not begin before ``release``; then all ranks agree first that none has failed.
    ready, ended: events on the GPU (see ``streams``), after which its work comes, and which come after its work.
    """

    def __init__(self, work: Callable[[], Any], awaited: bool = False):
        self.work, self.awaited = work, awaited
        self.released, self.done = threading.Event(), threading.Event()
        self.result: Any = None
        self.ready: Any = None
        self.ended: Any = None

    def release(self, ready=None):
        """Let it begin, as soon as the jobs before it are done."""
        if not self.released.is_set():
            self.ready = ready
            self.released.set()


class Background:
    """Runs jobs one after the other in a separate thread. Collective: all ranks give it the same jobs.

    Between ``start`` and ``finish`` the thread calls MPI, and no other thread of the rank may use the communicator.

    On a GPU the thread asks for its work on the stream of exchanges. While a rank waits for its GPU, it may wait for
    what peers send there, which has no time-out: so the thread has an eye on them (``Communicator.settle``) whenever it
    has nothing else to do, and lets go of them if they do not come.
    """

    def __init__(self, comm, jobs: list[Job], timeline, streams: OneLine = OneLine()):
        self.comm, self.jobs, self.timeline, self.streams = comm, jobs, timeline, streams
        self.error: BaseException | None = None  # what the computation met: to be agreed on
        self.failure: BaseException | None = None  # what ended the thread
        context = contextvars.copy_context()  # np.errstate holds here too
        self.thread = threading.Thread(target=context.run, args=(self._run,), name="exchange", daemon=True)

    def start(self):
        """Begin with the first job."""
        self.streams.meet()
        self.thread.start()

    def wait(self, job: Job):
        """Return the job's result when it is done; raise what ended the thread, if something has.

        On a GPU it is done when all of it has been asked for: the current stream waits for the rest.
        """
        if not job.done.is_set():
            self.comm.stay_one()  # this thread is not in a child
            with self.timeline.phase("waiting for exchange"):
                job.done.wait()
        if self.failure is not None:
            raise self.failure
        self.streams.after(job.ended)
        return job.result

    def fail(self, error: BaseException):
        """Tell all ranks, at the next job that was awaited, that this rank's computation has failed."""
        self.error = error
        for job in self.jobs:
            job.release()

    def finish(self):
        """Wait for the last job; raise what ended the thread, if something has. The comm is free again after it."""
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
        with self.timeline.phase("agree"):
            self.comm.agree(self.error)
        self.streams.after(job.ready)

    def _do(self, job):
        try:
            return job.work()
        except BaseException as problem:
            self.comm.stop(problem)
        finally:
            del job.work  # it may hold who holds the job
