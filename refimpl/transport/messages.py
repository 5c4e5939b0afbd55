"""NumPy arrays travel between ranks as MPI messages: the transport of host memory. Nothing is pickled."""

import time

from mpi4py import MPI

from refimpl.transport.packed import buffers, joined, pack, unpack
from refimpl.transport.rounds import CompiledRounds, can_compile
from refimpl.transport.waiting import Wait, Waiter, keep_for_ever


UNDER_WAY = set()
"""Messages that were begun and are not known to have ended. If a step fails, MPI may still write to their arrays."""


class MpiMessages:
    """MPI's point-to-point messages; see ``protocol.Transport``. The constructor is local.

    mpi: mpi4py's communicator.  waiter: how this rank waits.
    """

    name, has_tags = "mpi", True
    reason = "arrays in host memory travel as MPI messages"

    def __init__(self, mpi, waiter: Waiter):
        self.mpi, self.waiter = mpi, waiter

    def start(self, sends, receives, what: str, packed: bool = False, tag: int = 0) -> "MpiPending":
        """Begin to send and to receive. Collective over senders and receivers.

        packed: whether small arrays of a pair travel in one message (see ``packed``), the same on all ranks. If not, a
        message may be shorter than the array that receives it, and a list of arrays may be sent as one message.
        tag: messages are matched with those of the same tag.
        """
        rest = []
        if packed:
            sends, (receives, rest) = pack(sends), buffers(receives)
        else:
            sends = [(peer, joined(array) if type(array) is list else array) for peer, array in sends]
        requests = [self.mpi.Irecv(array, peer, tag) for peer, array in receives]  # the tag excludes abort messages
        requests += [self.mpi.Isend(array, peer, tag) for peer, array in sends]
        pending = MpiPending(self.waiter, requests, [peer for peer, _ in receives + sends], what, rest)
        if requests:
            UNDER_WAY.add(pending)
        return pending

    def prepare(self, sends, receives, what: str, lane: int = 0) -> "MpiPrepared":
        """Return persistent requests. Messages of lane j have tag 1 + j. Local."""
        requests = [self.mpi.Recv_init(array, peer, 1 + lane) for peer, array in receives]
        requests += [self.mpi.Send_init(array, peer, 1 + lane) for peer, array in sends]
        return MpiPrepared(requests, [peer for peer, _ in receives + sends], what)

    def wait_some(self, started) -> list["MpiPrepared"]:
        since = time.monotonic()
        if len(started) == 1 and self.waiter.come_soon(started[0].left):
            started[0].left = []
            UNDER_WAY.discard(started[0])
            return started
        return self.wait_long(started, since)

    def wait_long(self, started, since: float) -> list["MpiPrepared"]:
        """Wait as ``wait_some`` does, but without its short polls. since: when the wait began."""
        wait = None
        while True:
            done, through = self._test(started)
            if through:
                return through
            if wait is None:
                wait = Wait(self.waiter, lambda: [p for one in started for p in one.late()], started[0].what, started)
                wait.since = since
            if done:
                wait.progress()
            else:
                wait.pause()

    def in_one_call(self, rounds) -> CompiledRounds | None:
        """Return an object that runs rounds, see ``CompiledRounds``, when it is called; None if it cannot. Local."""
        return CompiledRounds(self, rounds) if can_compile(rounds) else None

    def test_some(self, started) -> list["MpiPrepared"]:
        return self._test(started)[1]

    def _test(self, started):
        """Return (whether any request was completed since the last test, those of ``started`` that are complete)."""
        any_done, through = False, []
        for one in started:
            if done := self.waiter.completed(one.left):
                one.left = [request for number, request in enumerate(one.left) if number not in done]
                any_done = True
            if not one.left:
                UNDER_WAY.discard(one)
                through.append(one)
        return any_done, through

    def settle(self, unless=lambda: False):
        """Return at once, because this transport waits for messages on the host. Local."""

    def close(self):
        """Do nothing, because MPI cannot cancel messages that are under way. Local."""


class MpiPending:
    """Messages under way, started by ``MpiMessages.start``. Their arrays are kept until ``wait`` returns."""

    def __init__(self, waiter: Waiter, requests, peers, what: str, packed):
        self.waiter, self.requests, self.peers, self.what, self.packed = waiter, requests, peers, what, packed

    def advance(self):
        for request in self.requests:
            request.Get_status()

    def wait(self):
        """Return when all is sent and received. Collective over senders and receivers. Raises SilentPeer, Aborted."""
        if self.requests:
            self.waiter.for_messages(self.requests, self.peers, self.what)
            unpack(self.packed)
        UNDER_WAY.discard(self)


class MpiPrepared:
    """Persistent requests that are started together. Local.

    peers[i]: the rank at the other end of requests[i].  left: those that were started and are not complete.
    """

    def __init__(self, requests, peers, what: str):
        self.requests, self.peers, self.what, self.left = requests, peers, what, []

    def start(self):
        self.left = self.requests
        UNDER_WAY.add(self)
        MPI.Prequest.Startall(self.requests)

    def late(self) -> list[int]:
        """Return the peers whose messages are not complete. Local."""
        return [peer for request, peer in zip(self.requests, self.peers) if not request.Get_status()]

    def free(self):
        if self.left:  # after a death: if a request fails after it was freed, Open MPI ends this rank
            keep_for_ever(self.requests)
        elif not MPI.Is_finalized():
            for request in self.requests:
                request.Free()
        self.requests = []
