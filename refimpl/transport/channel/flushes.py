"""Flushes of MPI's one-sided access, with a time-out. After it, the rank names the missing rank and ends.

A flush returns when all puts are in the target's memory. Where one-sided access is only emulated (TCP), the target must
call MPI for this, and meanwhile nothing can interrupt the flush. MPI has no flush that can be tested. The request of an
``Rput`` is complete as soon as its array may be written again. Nor does a request that fetches something afterwards
help: between emulated machines MPICH 5.0.2 answers it before it completes the put, and Open MPI 5.0.11 waits in its
test. So a thread watches, which can only end this rank.
"""

import os
import threading
import time

from refimpl.transport.errors import silent_peer
from refimpl.transport.job.supervisor import told
from refimpl.transport.waiting import Waiter

LOOK_SECONDS = 0.2


class Flushes:
    """Flush a window with a time-out. The constructor and ``close`` are local.

    waiter: its time-out is the flushes', after which this process ends.
    """

    def __init__(self, window, waiter: Waiter):
        self.window, self.waiter = window, waiter
        self._now: tuple | None = None
        self._closed = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()

    def flush(self, rank: int, slot: str):
        """Return when all puts are in a rank's memory. slot: named after a time-out."""
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
