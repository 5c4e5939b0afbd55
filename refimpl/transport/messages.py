"""NumPy arrays travel between ranks as MPI messages: the transport of host memory. Nothing is pickled."""

from mpi4py import MPI

from refimpl.transport.packed import buffers, joined, pack, unpack
from refimpl.transport.waiting import Wait, Waiter, keep_for_ever


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
        return MpiPending(self.waiter, requests, [peer for peer, _ in receives + sends], what, rest)

    def prepare(self, sends, receives, what: str, lane: int = 0) -> "MpiPrepared":
        """Return persistent requests. Messages of lane j have tag 1 + j. Local."""
        requests = [self.mpi.Recv_init(array, peer, 1 + lane) for peer, array in receives]
        requests += [self.mpi.Send_init(array, peer, 1 + lane) for peer, array in sends]
        return MpiPrepared(requests, [peer for peer, _ in receives + sends], what)

    def wait_some(self, started) -> list["MpiPrepared"]:
        requests, wait = Requests(started, self.waiter), None
        while True:
            done, through = requests.test()
            if through:
                return through
            if wait is None:
                wait = Wait(self.waiter, lambda: [p for one in started for p in one.late()], started[0].what, started)
            if done:
                wait.progress()
            else:
                wait.pause()

    def test_some(self, started) -> list["MpiPrepared"]:
        return Requests(started, self.waiter).test()[1]

    def settle(self, unless=lambda: False):
        """Return at once, because this transport waits for messages on the host. Local."""

    def close(self):
        """Do nothing, because MPI cannot cancel messages that are under way. Local."""


class Requests:
    """The requests of all ``started`` messages, which are tested together. Local."""

    def __init__(self, started: list["MpiPrepared"], waiter: Waiter):
        self.started, self.waiter = started, waiter
        self.requests = [request for one in started for request in one.left]
        self.of = [one for one in started for _ in one.left]

    def test(self) -> tuple[bool, list["MpiPrepared"]]:
        """Return (whether any was completed since the last test, those of ``started`` that are complete)."""
        if done := set(self.waiter.completed(self.requests)):
            for number in done:
                self.of[number].left.remove(self.requests[number])
            self.requests, self.of = ([each for number, each in enumerate(some) if number not in done]
                                      for some in (self.requests, self.of))
        return bool(done), [one for one in self.started if not one.left]


class MpiPending:
    """Messages under way, started by ``MpiMessages.start``. Their arrays must be kept until ``wait`` returns."""

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


class MpiPrepared:
    """Persistent requests that are started together. Local.

    peers[i]: the rank at the other end of requests[i].  left: those that were started and are not complete.
    """

    def __init__(self, requests, peers, what: str):
        self.requests, self.peers, self.what, self.left = requests, peers, what, []

    def start(self):
        for request in self.requests:
            request.Start()
        self.left = list(self.requests)

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
