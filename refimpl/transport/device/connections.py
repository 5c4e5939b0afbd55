"""NCCL's connections of this process, kept for the next transport between the same ranks; and calls with a time-out.

CuPy destroys a connection (an NcclCommunicator) with its last reference. But all ranks of a machine must destroy it
together, and each waits for the others. A new connection also takes a second. So an unused connection is kept until
all of its ranks need one again, or the program ends.
"""

import atexit
import gc
import threading
from collections import deque
from typing import Any, NamedTuple

from refimpl.transport.waiting import Wait, Waiter


class Connection(NamedTuple):
    """A connection that is open. place: its (rank, ranks, number of the GPU).

    under_way: the last group that was started, as in ``Nccl``.
    """

    nccl: Any
    stream: Any
    under_way: deque
    place: tuple[int, int, int]


_open: dict[str, Connection] = {}  # by NCCL's unique id
_idle: set[str] = set()  # ids of those that no transport uses


def keep(key: str, connection: Connection):
    """Remember a connection that a transport uses. key: NCCL's unique id. Local."""
    _open[key] = connection


def forget(key: str):
    """Forget a connection that was closed. Local."""
    _open.pop(key, None)


def release(key: str):
    """Note that no transport uses a connection any more; abort it if a group is still under way. Local."""
    if key not in _open:
        return
    connection = _open[key]
    if connection.under_way and not connection.under_way[0][0].done:
        del _open[key]
        connection.nccl.abort()
    else:
        _idle.add(key)


def take_again(comm, place) -> tuple[str, Any, Any]:
    """Return (key, connection, its stream) of exactly these ranks that is unused, or ("", None, None). Collective.

    place: as in ``Connection``.
    """
    gc.collect()  # transports that are no longer used may not have been found yet
    mine = [key for key in list(_idle) if _open[key].place == place]
    key = min(set.intersection(*(set(text.split()) for text in comm.share_text(" ".join(mine)))), default="")
    _idle.discard(key)
    return (key, _open[key].nccl, _open[key].stream) if key else ("", None, None)


@atexit.register
def _end():
    """At the end of the program, abort all connections, without waiting for other ranks."""
    while _open:
        _open.popitem()[1].nccl.abort()


def in_time(work, waiter: Waiter, what: str):
    """Do work() in another thread; return when it has returned, or raise what it raised. Local.

    It is for calls that wait for other ranks without a time-out. Raises SilentPeer after the time-out, and Aborted
    after an abort message; then the call is abandoned.
    """
    problems = []

    def run():
        try:
            work()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, daemon=True, name="nccl")
    wait = Wait(waiter, lambda: (), what, work)
    thread.start()
    while thread.is_alive():
        wait.pause()
    if problems:
        raise problems[0]
