"""Whether the processes of a job have ended."""

import time

from refimpl.transport.memory.shared_memory import _alive


def gone(pids, seconds=60.0):
    """Return whether all have ended within so many seconds, even where nobody has asked for their status yet."""
    end = time.monotonic() + seconds
    while any(map(_alive, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    return not any(map(_alive, pids))
