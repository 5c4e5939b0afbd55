"""How a rank waits for others: it polls with a time-out, so that a missing peer is an error and not a hang.

Several ranks may share a core, so a rank that waits must leave the core to one that works. First it yields at each
poll. Later it sleeps between polls: the earlier, the more ranks share a core; the longer, the longer it has waited.
"""

import os
import threading
import time
from typing import Callable

from mpi4py import MPI

from refimpl.transport.abort import AbortMessages
from refimpl.transport.errors import CollectiveError, silent_peer
from refimpl.transport.job.host import ranks_a_core

AWAKE_SECONDS = 1e-3  # time of polls without sleep, on a core of its own: longer than any message within a machine
AWAKE_BESIDE_OTHERS = 3e-4  # the same if 2 or 3 ranks share a core: polls would take it from one that works
SLEEP_SECONDS = 50e-6  # the kernel adds about as much; a segment takes far longer on a network
LONGEST_SLEEP = 5e-3
SLEEP_SHARE = 1 / 32
"""A rank sleeps for this part of the time that it has waited so far: a small delay that saves most polls."""
SLEEP_SHARE_OF_MANY = 1 / 10  # the same if 8 ranks or more share a core, since their polls alone would fill it
CHECK_SECONDS = 5e-3  # between two looks for an abort message, which cost as much as a poll

_MAIN_THREAD = threading.main_thread().ident
_given_up = []


def keep_for_ever(messages):
    """Keep the memory of abandoned messages, because they may still arrive in it. Local."""
    _given_up.append(messages)


class Waiter:
    """The waits of one rank: their time-out, and the abort messages that end them. The constructor is local.

    timeout: seconds without any progress after which SilentPeer is raised; it may be changed at any time.
    beside: called while this rank waits, to move what MPI does not move; it returns whether anything moved.
    """

    def __init__(self, rank: int, timeout: float, abort_messages: AbortMessages):
        self.rank, self.timeout, self.abort_messages = rank, timeout, abort_messages
        self.beside: Callable[[], bool] | None = None

    def for_messages(self, requests, peers, what: str):
        """Return when all of MPI's requests are complete. Local.

        peers[i]: the rank at the other end of requests[i].  what: named in errors.  Raises SilentPeer, with the missing
        ranks, after ``timeout`` seconds in which no request was completed; Aborted after an abort message.
        """
        left, wait = list(range(len(requests))), None

        def late():
            self.abort_messages.absent()  # answer the others, who may call the roll now, too
            return [peers[i] for i in left]

        while True:
            done = set(self.completed([requests[i] for i in left]))
            left = [i for place, i in enumerate(left) if place not in done]
            if not left:
                return
            if wait is None:
                wait = Wait(self, late, what, requests)
            if done:
                wait.progress()
            else:
                wait.pause()

    def awake_seconds(self) -> float:
        """Return how long to poll without sleep. Local."""
        return _awake_here() if self.beside is None else 0.0

    def come_soon(self, requests) -> bool:
        """Return True when all of MPI's requests are complete, or False when it is time to sleep between polls. Local.

        Its polls are shorter than those of a ``Wait``, because they look for nothing else.
        """
        end = time.monotonic() + self.awake_seconds()
        while not MPI.Request.Testall(requests):
            if time.monotonic() > end:
                return False
            os.sched_yield()
        return True

    def completed(self, requests) -> list[int]:
        """Return the indices of MPI's requests that are complete. Local."""
        done = MPI.Request.Testsome(requests)
        return list(range(len(requests))) if done is None else done  # None: all were complete before

    def for_collective(self, request, what: str):
        """Return when a collective of MPI's is complete. Local.

        MPI cannot say which rank is late, so a roll call finds ranks that do not wait. Raises as ``for_messages``.
        """
        self.abort_messages.begin(what)

        def late():
            missing = self.abort_messages.absent()
            return None if request.Test() else missing  # the late rank may have come during the roll call

        wait = Wait(self, late, what, request)
        while not request.Test():
            wait.pause()


def awake_seconds(ranks: float) -> float:
    """Return how long to poll without sleep if ``ranks`` ranks share a core. Local."""
    return AWAKE_SECONDS if ranks <= 1 else AWAKE_BESIDE_OTHERS if ranks < 4 else 0.0


def _awake_here() -> float:
    # in another thread, leave core and Python's lock to the main thread, which computes
    return awake_seconds(ranks_a_core()) if threading.get_ident() == _MAIN_THREAD else 0.0


class Wait:
    """One wait: call ``pause`` after each poll that found nothing, ``progress`` after one that did. Local.

    late() -> the ranks for which it still waits; None if there are none any more.
    messages: objects to keep in memory after an error.  Raises as ``Waiter.for_messages``.
    """

    def __init__(self, waiter: Waiter, late, what: str, messages):
        self.waiter, self.late, self.what, self.messages = waiter, late, what, messages
        self.awake = _awake_here()
        self.share = SLEEP_SHARE if ranks_a_core() < 8 else SLEEP_SHARE_OF_MANY
        self.since, self.checked = None, time.monotonic()

    def progress(self):
        """Begin the time-out again, because something has come."""
        self.since = None

    def pause(self):
        """Yield or sleep; look for abort messages; raise SilentPeer after the time-out."""
        if self.waiter.beside is not None and self.waiter.beside():
            return
        now = time.monotonic()
        if self.since is None:
            self.since = now
        if now - self.since < self.awake:
            os.sched_yield()
            return
        try:
            if now - self.since >= self.waiter.timeout:
                if (late := self.late()) is None:
                    return self.progress()
                raise silent_peer(self.waiter.rank, self.waiter.timeout, late, self.what)
            time.sleep(min(LONGEST_SLEEP, max(SLEEP_SECONDS, self.share * (now - self.since))))
            if now - self.checked >= CHECK_SECONDS:
                self.checked = now
                self.waiter.abort_messages.check()
        except CollectiveError:
            keep_for_ever(self.messages)
            raise
