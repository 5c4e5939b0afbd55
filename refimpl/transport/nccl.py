"""Device arrays between ranks by NCCL, on a stream of its own: the host only says what shall move, and goes on.

    current stream   ...compute──┐ ready            ┌──compute with what came...
    NCCL's stream                └──send, receive───┘ done

Messages of one ``start`` are one group: they move together, and a group moves after the group before it. All ranks
begin their groups in the same order. (NCCL User Guide: Point-to-point communication; Group calls.)
"""

import atexit
import gc
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple

import cupy
from cupy.cuda import nccl

from refimpl.transport.waiting import CollectiveError, Wait

KINDS = {"e": nccl.NCCL_FLOAT16, "f": nccl.NCCL_FLOAT32, "d": nccl.NCCL_FLOAT64, "i": nccl.NCCL_INT32,
         "l": nccl.NCCL_INT64, "q": nccl.NCCL_INT64}
"""dtype.char -> what NCCL calls it, for sums. Messages are bytes."""


class Nccl:
    """The transport of a communicator by NCCL. Collective over the communicator's ranks to make.

    comm: whose messages these are.  device: number of the GPU that this rank's arrays lie on.  Raises CollectiveError
    on all ranks, with the rank and what to do, if they cannot be connected, and SilentPeer if one does not come.
    """

    name = "nccl"

    def __init__(self, comm, device: int, reason: str = ""):
        self.comm, self.device, self.reason = comm, cupy.cuda.Device(device), reason
        self.device.use()
        self.under_way: deque = deque(maxlen=1)  # (event, what, peers) of the last group
        self.place = comm.rank, comm.size, device
        self.key, self.nccl, self.stream = _again(comm, self.place)
        if self.nccl is None:
            self.key = comm.once(lambda: nccl.get_unique_id().hex())
            self.stream = cupy.cuda.Stream(non_blocking=True)
        try:
            in_time(self._connect, comm, "the connection of all ranks by NCCL")
            _communicators[self.key] = Kept(self.nccl, self.stream, self.under_way, self.place)
            self.settle()
        except Exception as problem:  # the others wait for this rank, and cannot be asked
            self.close()
            comm.stop(problem)
        comm.together(self._check_greetings, (ConnectionError,))
        weakref.finalize(self, _retire, self.key).atexit = False

    def _connect(self):
        """Meet the other ranks, and send each one message: what would be connected at first use is so by now."""
        self.device.use()  # each thread has a device of its own
        if self.nccl is None:
            with told("the connection of all ranks"):
                self.nccl = nccl.NcclCommunicator(self.comm.size, bytes.fromhex(self.key), self.comm.rank)
        others = [rank for rank in range(self.comm.size) if rank != self.comm.rank]
        self.greeting = cupy.full(1, self.comm.rank, cupy.int64)
        self.greetings = cupy.full(self.comm.size, self.comm.rank, cupy.int64)
        self.start([(rank, self.greeting) for rank in others],
                   [(rank, self.greetings[rank:rank + 1]) for rank in others], "the first messages").wait()

    def _check_greetings(self):
        """Raise ConnectionError if a rank's first message is not what it sent."""
        came = self.greetings.get().tolist()
        wrong = [rank for rank in range(self.comm.size) if came[rank] != rank]
        if wrong:
            self.close()
            raise ConnectionError(f"NCCL's first message of rank {wrong[0]} says {came[wrong[0]]}: it moves "
                                  "data wrongly here. Say NCCL_DEBUG=INFO to see how ranks are connected, or "
                                  "--transport staged")

    def start(self, sends, receives, what: str) -> "NcclPending":
        """Begin to move contiguous, non-empty device arrays. sends, receives: lists of (peer, array).

        Collective over the ranks concerned, as is the ``wait`` of what is returned. ``what`` names it in errors.
        """
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
        """Return whether NCCL has sums of a dtype. Local."""
        return dtype.char in KINDS

    def allreduce(self, array, what: str) -> "NcclPending":
        """Begin to sum a contiguous device array over all ranks, in place, in NCCL's order. Collective."""
        kind, at, peers = KINDS[array.dtype.char], array.data.ptr, set(range(self.comm.size)) - {self.comm.rank}

        def sum_up():
            self.nccl.allReduce(at, at, array.size, kind, nccl.NCCL_SUM, self.stream.ptr)

        return self._after_current(sum_up, [array], peers, what)

    def _after_current(self, ask, arrays, peers, what):
        """Ask for something on NCCL's stream, after what the current stream has been asked for."""
        self.device.use()
        if self.nccl is None:
            raise ConnectionError(f"{what}: NCCL was closed on this rank, after an error or by close()")
        ready = _record(cupy.cuda.get_current_stream())
        self.stream.wait_event(ready)
        with told(what):
            ask()
        done = _record(self.stream)
        self.under_way.append((done, what, peers))
        return NcclPending(done, arrays)

    def settle(self, unless=lambda: False):
        """Return when all that was begun has moved, or unless() is true: the host waits, but not for ever. Local.

        Raises SilentPeer after the communicator's patience, ConnectionError for what NCCL met, Stopped after a notice; then
        nothing more can be moved.
        """
        connection, last = self.nccl, list(self.under_way)  # another thread may begin more meanwhile
        if connection is None or not last:
            return
        done, what, peers = last[0]
        wait = Wait(self.comm.patience, lambda: peers, self.comm.rank, what, last, self.comm.notices.heed)
        try:
            while not done.done and not unless():
                with told(what):
                    connection.check_async_error()
                wait.pause()
        except (CollectiveError, ConnectionError):
            self.close()
            raise

    def close(self):
        """Give up what moves, and let go of the others. Local; nothing can be moved after it."""
        connection, self.nccl = self.nccl, None
        _communicators.pop(self.key, None)
        self.under_way.clear()
        if connection is not None:
            connection.abort()  # destroy would wait for what may never come


def _record(stream):
    """Return an event that is done when the stream has done what it was asked for so far."""
    event = cupy.cuda.Event(disable_timing=True)  # others take longer
    event.record(stream)
    return event


class Kept(NamedTuple):
    """A communicator that was not closed. place: (rank, ranks, number of the GPU) that it was made for."""

    nccl: Any
    stream: Any
    under_way: deque
    place: tuple[int, int, int]


_communicators: dict[str, Kept] = {}  # unique id -> all that were not closed
_retired: set[str] = set()  # ids of those whose transport is gone
"""CuPy destroys a communicator with its last reference, whenever that is; but to destroy one is a call that all ranks
of a machine must make, and waits for them; and to make one takes a second. So it is kept until these ranks meet again,
who take it again, or the program ends."""


def _retire(key: str):
    """Note that a transport is gone; give up what still moves."""
    if key not in _communicators:
        return
    kept = _communicators[key]
    if kept.under_way and not kept.under_way[0][0].done:
        del _communicators[key]
        kept.nccl.abort()
    else:
        _retired.add(key)


def _again(comm, place):
    """Return (key, communicator, its stream) of these very ranks, that none of them uses any more. Collective.

    ("", None, None) if there is none.
    """
    gc.collect()  # what let go of a transport may not have been found yet
    mine = [key for key in list(_retired) if _communicators[key].place == place]
    key = min(set.intersection(*(set(text.split()) for text in comm.share_text(" ".join(mine)))), default="")
    _retired.discard(key)
    return (key, _communicators[key].nccl, _communicators[key].stream) if key else ("", None, None)


@atexit.register
def _end():
    """At the end of the program wait for nobody."""
    while _communicators:
        _communicators.popitem()[1].nccl.abort()


class NcclPending:
    """What moves, begun by an ``Nccl``. It keeps the arrays until it is waited for."""

    def __init__(self, done, arrays):
        self.done, self.arrays = done, arrays

    def wait(self):
        """Let the current stream wait until all has moved; the host goes on."""
        cupy.cuda.get_current_stream().wait_event(self.done)
        self.arrays = ()


class told:
    """Say what NCCL met as people need it: ConnectionError with what was being done, and what to do. A context."""

    def __init__(self, what: str):
        self.what = what

    def __enter__(self):
        return self

    def __exit__(self, kind, problem, trace):
        if isinstance(problem, (nccl.NcclError, KeyError)):  # CuPy knows the statuses up to 6, and looks others up
            raise ConnectionError(
                f"{self.what} by NCCL: {_words(problem)}. If another rank has ended, its message says why; else run "
                "with NCCL_DEBUG=INFO to see what NCCL misses, or with --transport staged, which needs no NCCL"
            ) from problem


def _words(problem) -> str:
    return str(problem) if isinstance(problem, nccl.NcclError) else f"NCCL's status {problem}, see ncclResult_t"


def in_time(work, comm, what: str):
    """Return when work(), done in another thread, has returned, or raise what it raised. Local.

    For calls that wait for other ranks and know no end: raises SilentPeer after the communicator's patience, and Stopped after
    a notice; the call is then left to itself.
    """
    problems = []

    def run():
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True, name="nccl")
    wait = Wait(comm.patience, lambda: (), comm.rank, what, work, comm.notices.heed)
    thread.start()
    while thread.is_alive():
        wait.pause()
    if problems:
        raise problems[0]
