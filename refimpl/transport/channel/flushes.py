"""Flushes of MPI's one-sided access, each of which ends: in time, or with the job and the name of who is missing.

A flush returns when its target has let all puts in. Where one-sided access is only emulated (TCP), the target must call
MPI for that, and nothing reaches into a flush meanwhile. MPI has no flush that can be tested: the request of an
``Rput`` is complete as soon as its array may be written again. A request that fetches something afterwards does not
tell, either: between emulated machines MPICH 5.0.2 answers it before it lets the put in, and Open MPI 5.0.11 waits
within its test. So a thread watches, which can do no more than end this rank.
"""

import os
import threading
import time

from refimpl.transport.errors import silent_peer
from refimpl.transport.job.supervisor import told
from refimpl.transport.waiting import Waiter

LOOK_SECONDS = 0.2


class Flushes:
    """Flush a window under a watch. Local to make and to close.

    waiter: has the time-out, after which this process ends.
    """

    def __init__(self, window, waiter: Waiter):
        self.window, self.waiter = window, waiter
        self._now: tuple | None = None
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def flush(self, rank: int, slot: str):
        """Return when all that was put is in the memory of a rank. slot: named if that rank does not let it in."""
        self._now = time.perf_counter(), rank, slot
        self.window.Flush(rank)
        self._now = None

    def _look(self):
        while not self._closed.wait(LOOK_SECONDS):
            now = self._now
            if now is not None and time.perf_counter() - now[0] > self.waiter.timeout:
                error = silent_peer(self.waiter.rank, self.waiter.timeout, [now[1]], f"slot {now[2]} (to let a put in)")
                os.write(2, f"refimpl: error: {error}\n".encode())
                told("said")
                os._exit(1)

    def close(self):
        """Stop watching."""
        self._closed.set()
        self._watch.join()
