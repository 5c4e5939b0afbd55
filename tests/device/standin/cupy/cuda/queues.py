"""What streams of the stand-in still have to do: messages on their way. Everything else happens at once.

A stream's work is done when somebody waits for it: the host, or a stream that waits for an event. Then the host waits,
too, as what comes after it on that stream happens at once. With ``runs_ahead`` it does not, as it does not on a GPU:
what would come later computes with rubbish, and is done when the messages are. That is for exchanges that fail.
"""

import threading

_queues: dict[int, list] = {}
_lock = threading.RLock()
runs_ahead = False


class CopyToHost:
    """A copy under way: until the stream is waited for, rubbish lies there."""

    def __init__(self, out, host):
        self.out, self.host, self.over = out, host, False
        out.reshape(-1).view("u1")[:] = 0xAB

    def test(self):
        if not self.over:
            self.over, self.out[...] = True, self.host
        return True

    finish = test


def add(stream: int, work):
    """Queue work, which has test() -> bool and finish(), on a stream."""
    with _lock:
        _queues.setdefault(stream, []).append(work)


def wait(stream: int, works):
    """Let a stream wait for work: its own later work comes after it."""
    if not runs_ahead:
        finish(works)
        return
    with _lock:
        _queues.setdefault(stream, []).extend(work for work in works if work not in _queues.get(stream, ()))


def of(stream: int | None = None) -> list:
    """Return what a stream (None: all) has still to do."""
    with _lock:
        return [work for key, queue in _queues.items() for work in queue if stream in (None, key)]


def finish(works):
    """Wait for work."""
    for work in works:
        work.finish()
        _forget(work)


def done(works) -> bool:
    """Return whether work is done, without waiting for it."""
    left = [work for work in works if not work.test()]
    for work in works:
        if work not in left:
            _forget(work)
    return not left


def drop_all():
    """Let nothing be left to do, and the host wait again: after a test in which something failed."""
    global runs_ahead
    with _lock:
        for queue in _queues.values():
            for work in queue:
                work.over = True
        _queues.clear()
    runs_ahead = False


def _forget(work):
    with _lock:
        for queue in _queues.values():
            while work in queue:
                queue.remove(work)
