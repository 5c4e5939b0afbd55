"""What streams of the stand-in still have to do: messages on their way. Everything else happens at once.

A stream's work is done when somebody waits for it: a stream that waits for an event, or the host.
"""

import threading

_queues: dict[int, list] = {}
_lock = threading.RLock()


def add(stream: int, work):
    """Queue work, which has test() -> bool and finish(), on a stream."""
    with _lock:
        _queues.setdefault(stream, []).append(work)


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


def _forget(work):
    with _lock:
        for queue in _queues.values():
            if work in queue:
                queue.remove(work)
