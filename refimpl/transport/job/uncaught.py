"""An error of all ranks that a program of a user's own does not catch: told once, not by a long traceback a rank."""

import sys
import traceback

from refimpl.transport.errors import CollectiveError, users_frames
from refimpl.transport.job.ending import leave


def tell_once():
    """Let Python print an uncaught CollectiveError as one line, unless a program prints errors its own way. Local.

    After the traceback of any other error all ranks end, too: they may wait for this one in an exchange.
    If a user's own code raised it, the first rank that did prints the lines of that code before.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _tell


def _tell(kind, error, trace):
    cause = error.__cause__
    if not issubclass(kind, CollectiveError):
        sys.__excepthook__(kind, error, trace)
        leave(1, error)  # if this rank alone met it, the others wait for it in an exchange
        return
    if cause is not None and (frames := users_frames(cause)):
        frames = traceback.format_list(users_frames(error) + frames)
        _write("Traceback (most recent call last), without the lines of libraries:\n", *frames,
               *traceback.format_exception_only(cause))
    elif not isinstance(cause, (ValueError, OSError, CollectiveError, type(None))):  # a mistake of the project's
        sys.__excepthook__(kind, error, trace)
    _write(f"refimpl: error: {error}\n")
    leave(1, error)


def _write(*lines):
    sys.stderr.write("".join(lines))  # in one piece: other ranks write there too
    sys.stderr.flush()
