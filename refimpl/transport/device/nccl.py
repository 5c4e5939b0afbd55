"""Device arrays travel between ranks by NCCL, on its own stream. The host starts the messages, and does not wait.

    current stream   ...compute──┐ ready            ┌──compute with what came...
    NCCL's stream                └──send, receive───┘ done

The messages of one ``start`` are a group. They move together, after the group before. All ranks start their groups in
the same order. (NCCL User Guide: Point-to-point communication; Group calls.)
"""

import weakref
from collections import deque
from contextlib import contextmanager

import cupy
from cupy.cuda import nccl

from refimpl.transport.device import connections
from refimpl.transport.device.repeated import Repeating
from refimpl.transport.errors import CollectiveError
from refimpl.transport.waiting import Wait, Waiter

KINDS = {"e": nccl.NCCL_FLOAT16, "f": nccl.NCCL_FLOAT32, "d": nccl.NCCL_FLOAT64, "i": nccl.NCCL_INT32,
         "l": nccl.NCCL_INT64, "q": nccl.NCCL_INT64}
"""dtype.char -> NCCL's type, for sums. Messages are bytes."""


class Nccl(Repeating):
    """Device arrays by NCCL; see ``protocol.Transport``. The constructor is local; ``open`` is collective.

    device: number of the GPU with this rank's arrays.  key: NCCL's unique id.  stream: NCCL's.
    nccl: the connection; None before ``connect`` and after ``close``.
    under_way: (event, what, peers) of the last group that was started.
    """

    name = "nccl"

    def __init__(self, rank: int, size: int, waiter: Waiter, device: int, key: str, stream, connection=None,
                 reason: str = ""):
        self.rank, self.size, self.waiter = rank, size, waiter
        self.device, self.reason = cupy.cuda.Device(device), reason
        self.key, self.stream, self.nccl = key, stream, connection
        self.under_way: deque = deque(maxlen=1)

    @classmethod
    def open(cls, comm, device: int, reason: str = "") -> "Nccl":
        """Connect the communicator's ranks by NCCL. Collective over ``comm``.

        Raises CollectiveError on all ranks, with the rank and a remedy, if they cannot be connected, and SilentPeer if
        a rank does not come.
        """
        cupy.cuda.Device(device).use()
        place = comm.rank, comm.size, device
        key, connection, stream = connections.take_again(comm, place)
        if not key:
            key = comm.once(lambda: nccl.get_unique_id().hex())
            stream = cupy.cuda.Stream(non_blocking=True)
        transport = cls(comm.rank, comm.size, comm.waiter, device, key, stream, connection, reason)
        try:
            connections.in_time(transport.connect, comm.waiter, "the connection of all ranks by NCCL")
            connections.keep(key, connections.Connection(transport.nccl, stream, transport.under_way, place))
            transport.settle()
        except Exception as problem:  # the other ranks wait in NCCL, so they cannot agree with this one
            transport.close()
            comm.stop(problem)
        comm.together(transport.check_greetings, (ConnectionError,))
        weakref.finalize(transport, connections.release, key).atexit = False
        return transport

    def connect(self):
        """Connect to all other ranks, and send each a message, so that later exchanges are connected. No time-out."""
        self.device.use()  # each thread has a device of its own
        if self.nccl is None:
            with nccl_errors("the connection of all ranks"):
                self.nccl = nccl.NcclCommunicator(self.size, bytes.fromhex(self.key), self.rank)
        others = [rank for rank in range(self.size) if rank != self.rank]
        self.greeting = cupy.full(1, self.rank, cupy.int64)
        self.greetings = cupy.full(self.size, self.rank, cupy.int64)
        self.start([(rank, self.greeting) for rank in others],
                   [(rank, self.greetings[rank:rank + 1]) for rank in others], "the first messages").wait()

    def check_greetings(self):
        """Raise ConnectionError if a rank's first message has come with other contents. Local."""
        came = self.greetings.get().tolist()
        wrong = [rank for rank in range(self.size) if came[rank] != rank]
        if wrong:
            self.close()
            raise ConnectionError(f"NCCL's first message of rank {wrong[0]} says {came[wrong[0]]}: it moves "
                                  "data wrongly here. Say NCCL_DEBUG=INFO to see how ranks are connected, or "
                                  "--transport staged")

    def start(self, sends, receives, what: str) -> "NcclPending":
        def group():
            nccl.groupStart()
            try:
                for peer, array in receives:
                    self.nccl.recv(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, self.stream.ptr)
                for peer, array in sends:
                    self.nccl.send(array.data.ptr, array.nbytes, nccl.NCCL_UINT8, peer, self.stream.ptr)
            finally:
                nccl.groupEnd()

        messages = [*receives, *sends]
        return self._after_current(group, [array for _, array in messages], {peer for peer, _ in messages}, what)

    def adds(self, dtype) -> bool:
        """Return whether NCCL can add arrays of a dtype. Local."""
        return dtype.char in KINDS

    def allreduce(self, array, what: str) -> "NcclPending":
        """Begin to sum a contiguous device array over all ranks, in place, in NCCL's order. Collective."""
        kind, at, peers = KINDS[array.dtype.char], array.data.ptr, set(range(self.size)) - {self.rank}

        def sum_up():
            self.nccl.allReduce(at, at, array.size, kind, nccl.NCCL_SUM, self.stream.ptr)

        return self._after_current(sum_up, [array], peers, what)

    def _after_current(self, ask, arrays, peers, what):
        """Put work on NCCL's stream, after the work that is on the current stream."""
        self.device.use()
        if self.nccl is None:
            raise ConnectionError(f"{what}: NCCL was closed on this rank, after an error or by close()")
        ready = _record(cupy.cuda.get_current_stream())
        self.stream.wait_event(ready)
        with nccl_errors(what):
            ask()
        done = _record(self.stream)
        self.under_way.append((done, what, peers))
        return NcclPending(done, arrays)

    def settle(self, unless=lambda: False):
        """Let the host wait until all groups have moved, or unless() is true. Local.

        Raises SilentPeer after the time-out, ConnectionError for an error of NCCL, Aborted after an abort message.
        Then this transport can no longer be used.
        """
        connection, last = self.nccl, list(self.under_way)  # another thread may start more meanwhile
        if connection is None or not last:
            return
        done, what, peers = last[0]
        wait = Wait(self.waiter, lambda: peers, what, last)
        try:
            while not done.done and not unless():
                with nccl_errors(what):
                    connection.check_async_error()
                wait.pause()
        except (CollectiveError, ConnectionError):
            self.close()
            raise

    def close(self):
        connection, self.nccl = self.nccl, None
        connections.forget(self.key)
        self.under_way.clear()
        if connection is not None:
            connection.abort()  # destroy would wait for messages that may never come


class NcclPending:
    """A group that an ``Nccl`` has started. It keeps the arrays until ``wait``."""

    def __init__(self, done, arrays):
        self.done, self.arrays = done, arrays

    def advance(self):
        """Do nothing: NCCL moves the arrays by itself. Local."""

    def wait(self):
        """Let the current stream wait until all arrays have moved; the host does not wait. Local."""
        cupy.cuda.get_current_stream().wait_event(self.done)
        self.arrays = ()


def _record(stream):
    """Return an event that is done when the present work of the stream is done."""
    event = cupy.cuda.Event(disable_timing=True)  # events with timing cost more
    event.record(stream)
    return event


@contextmanager
def nccl_errors(what: str):
    """Turn NCCL's errors in the block into ConnectionError, with ``what`` was being done, and a remedy."""
    try:
        yield
    except (nccl.NcclError, KeyError) as problem:  # CuPy knows statuses up to 6; others give a KeyError
        words = str(problem) if isinstance(problem, nccl.NcclError) else f"NCCL's status {problem}, see ncclResult_t"
        raise ConnectionError(
            f"{what} by NCCL: {words}. If another rank has ended, its message says why; else run with "
            "NCCL_DEBUG=INFO to see what NCCL misses, or with --transport staged, which needs no NCCL") from problem
