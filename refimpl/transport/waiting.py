"""How a rank waits for others: awake while they are near, asleep while they are far, and never without a time-out.

Polled, not blocked, so that a peer that never comes is an error and no hang. Ranks may outnumber cores: a rank that
waits must leave the core to one that works, first by giving way at each poll, then by sleeping between polls: the
sooner, the more ranks share a core, and the longer, the longer it has waited.
"""

import os
import threading
import time
from typing import Callable

from mpi4py import MPI

from refimpl.transport.abort import AbortMessages
from refimpl.transport.errors import CollectiveError, silent_peer
from refimpl.transport.job.host import ranks_a_core

AWAKE_SECONDS = 1e-3  # without progress, with a core of its own: longer than any message within a machine takes
AWAKE_BESIDE_OTHERS = 3e-4  # where 2 or 3 ranks share a core: polls would take it from one that works
SLEEP_SECONDS = 50e-6  # the kernel adds about as much: still short beside a segment on a network
LONGEST_SLEEP = 5e-3
SLEEP_SHARE = 1 / 32
"""The part of the time waited so far for which a rank sleeps: the delay stays small beside the wait, and most of its
polls are saved."""
SLEEP_SHARE_OF_MANY = 1 / 10  # where 8 ranks or more share a core, which their polls alone would fill
CHECK_SECONDS = 5e-3  # between two looks for an abort message, each of which costs as much as a poll

_given_up = []


def keep_for_ever(messages):
    """Keep what belongs to messages that were given up, but may still come: its memory must outlive them. Local."""
    _given_up.append(messages)


class Waiter:
    """How one rank of a communicator waits: for how long, and which abort messages end it. Local to make.

    timeout: seconds without any progress after which SilentPeer is raised; it may be changed at any time.
    beside: called while this rank waits, so that what MPI does not move goes on, too; says whether anything did.
    """

    def __init__(self, rank: int, timeout: float, abort_messages: AbortMessages):
        self.rank, self.timeout, self.abort_messages = rank, timeout, abort_messages
        self.beside: Callable[[], bool] | None = None

    def for_messages(self, requests, peers, what: str):
        """Return when all of MPI's requests are complete. Local.

        peers[i]: the rank at the other end of requests[i].  what: named in errors.  Raises SilentPeer, with the ranks
        that have not come, after ``timeout`` seconds in which no request was completed; Aborted after an abort message.
        """
        left, wait = list(range(len(requests))), None

        def late():
            self.abort_messages.absent()  # who calls the roll at the same time must not miss this rank
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

    def completed(self, requests) -> list[int]:
        """Return which of MPI's requests are complete; they are over then. Local."""
        done = MPI.Request.Testsome(requests)
        return list(range(len(requests))) if done is None else done  # None: all were over before

    def for_collective(self, request, what: str):
        """Return when a collective of MPI's is complete. Local.

        MPI cannot say which rank is late. A roll call finds ranks that do not wait here. Raises as ``for_messages``.
        """
        self.abort_messages.begin(what)

        def late():
            missing = self.abort_messages.absent()
            return None if request.Test() else missing  # the late rank may have come meanwhile

        wait = Wait(self, late, what, request)
        while not request.Test():
            wait.pause()


def awake_seconds(ranks: float) -> float:
    """Return how long to poll without sleep, where so many ranks share a core. Local."""
    return AWAKE_SECONDS if ranks <= 1 else AWAKE_BESIDE_OTHERS if ranks < 4 else 0.0


class Wait:
    """One wait: call ``pause`` after each poll that found nothing, ``progress`` after one that did. Local.

    late() -> the ranks still waited for; None if there are none any more.
    messages: what must stay in memory if they are given up.  Raises as ``Waiter.for_messages``.
    """

    def __init__(self, waiter: Waiter, late, what: str, messages):
        self.waiter, self.late, self.what, self.messages = waiter, late, what, messages
        beside = threading.current_thread() is not threading.main_thread()
        # another thread computes: leave it the core and Python's lock
        self.awake = 0.0 if beside else awake_seconds(ranks_a_core())
        self.share = SLEEP_SHARE if ranks_a_core() < 8 else SLEEP_SHARE_OF_MANY
        self.since, self.checked = None, time.monotonic()

    def progress(self):
        """Say that something has come: the time-out begins anew."""
        self.since = None

    def pause(self):
        """Give way to others if nothing went on; look for abort messages; raise SilentPeer after the time-out."""
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
