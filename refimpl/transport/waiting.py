"""How a rank waits for its messages: awake while they are near, asleep while they are far, and not for ever.

Polled, not blocked, so that a peer that never comes is an error and no hang. Ranks may outnumber cores: a rank that
waits must leave the core to one that works, first by giving way at each poll, then by sleeping between polls; where
many share a core (see ``host``), by sleeping at once.
"""

import os
import threading
import time

from mpi4py import MPI

from refimpl.transport.host import crowded

AWAKE_SECONDS = 1e-3  # without progress: longer than any message within a machine takes
SLEEP_SECONDS = 50e-6  # the kernel adds about as much: still short beside a segment on a network
LONGEST_SLEEP = 5e-3
HEED_SECONDS = 5e-3  # between two looks for a notice, each of which costs as much as a poll
PATIENCE_SECONDS = 300.0


class CollectiveError(RuntimeError):
    """An error that every rank raises with the same message, whichever rank it arose on."""


class SilentPeer(CollectiveError):
    """A peer has not come within the communicator's patience. Raised by the ranks that waited for it, each on its own.

    The messages stay under way: nothing more can be done over this communicator.
    """


_given_up = []


def keep_for_ever(messages):
    """Keep what belongs to messages that were given up, but may still come: its memory must outlive them. Local."""
    _given_up.append(messages)


class Wait:
    """One wait: call ``pause`` after each poll that found nothing, ``progress`` after one that did. Local.

    patience: seconds without progress until SilentPeer is raised.  late() names the ranks still waited for, None if
    there are none any more.  messages: what must be kept in memory where they are given up.  heed: called now and
    then; what it raises ends it.
    """

    share = 0.0
    """Sleep so long a part of the time waited so far: for dozens of ranks a core, whose polls alone would fill it."""

    def __init__(self, patience: float, late, rank: int, what: str, messages, heed=lambda: None):
        self.patience, self.late, self.rank, self.what, self.messages = patience, late, rank, what, messages
        self.heed = heed
        beside = threading.current_thread() is not threading.main_thread()
        # another thread computes: leave it the core and Python's lock
        self.awake = 0.0 if beside or crowded() else AWAKE_SECONDS
        self.since, self.heeded = None, time.monotonic()

    def progress(self):
        self.since = None

    def pause(self):
        """Give way to others. Raises SilentPeer when patience is at its end."""
        now = time.monotonic()
        if self.since is None:
            self.since = now
        if now - self.since < self.awake:
            os.sched_yield()
        elif now - self.since < self.patience:
            time.sleep(min(LONGEST_SLEEP, max(SLEEP_SECONDS, self.share * (now - self.since))))
            if now - self.heeded >= HEED_SECONDS:
                self.heeded = now
                self._heed()
        else:
            keep_for_ever(self.messages)
            late = self.late()
            if late is None:
                return self.progress()
            late = sorted(set(late))
            names = f"rank{'s' * (len(late) > 1)} {', '.join(map(str, late))}" if late else "the other ranks"
            raise SilentPeer(f"rank {self.rank} has waited {self.patience:g} s for {names} in {self.what}: ended, "
                             f"cut off, stuck or somewhere else in the program")

    def _heed(self):
        try:
            self.heed()
        except CollectiveError:
            keep_for_ever(self.messages)
            raise


def wait_all(requests, patience: float, rank: int, peers, what: str, heed=lambda: None, absent=lambda: []):
    """Return when all requests are complete. peers[i]: the rank at the other end of requests[i]. Local.

    Raises SilentPeer, naming the peers that have not come, after ``patience`` seconds without any progress. absent()
    is called before, and answers others that miss somebody; of a collective, whose request has no peer, it says who.
    """
    if MPI.Request.Testall(requests):
        return
    left = list(range(len(requests)))

    def late():
        missing = absent()
        return [peers[i] for i in left] if peers else None if not missing and MPI.Request.Testall(requests) else missing

    wait = Wait(patience, late, rank, what, requests, heed)
    while left:
        done = MPI.Request.Testsome([requests[i] for i in left])
        if done:
            gone = set(done)
            left = [i for place, i in enumerate(left) if place not in gone]
            wait.progress()
        else:
            wait.pause()
