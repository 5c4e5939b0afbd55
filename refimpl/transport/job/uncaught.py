"""Print an uncaught error of all ranks once, in a user's own program, instead of a traceback from each rank."""

import sys
import traceback

from refimpl.transport.errors import CollectiveError, users_frames
from refimpl.transport.job.ending import leave


def tell_once():
    """Let Python print an uncaught CollectiveError as one line, unless the program has its own ``excepthook``. Local.

    If the user's code raised it, the first rank that did so prints the lines of this code before.
    After the traceback of any other error all ranks end, too, because they may wait for this one in an exchange.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _tell


def _tell(kind, error, trace):
    cause = error.__cause__
    if not issubclass(kind, CollectiveError):
        sys.__excepthook__(kind, error, trace)
        leave(1, error)  # if only this rank met it, the others wait for it in an exchange
        return
    if cause is not None and (frames := users_frames(cause)):
        frames = traceback.format_list(users_frames(error) + frames)
        _write("Traceback (most recent call last), without the lines of libraries:\n", *frames,
               *traceback.format_exception_only(cause))
    elif not isinstance(cause, (ValueError, OSError, CollectiveError, type(None))):  # a mistake in this project
        sys.__excepthook__(kind, error, trace)
    _write(f"refimpl: error: {error}\n")
    leave(1, error)


def _write(*lines):
    sys.stderr.write("".join(lines))  # in one piece, because other ranks write there, too
    sys.stderr.flush()
