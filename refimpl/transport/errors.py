"""The errors of ranks that work together: every rank raises the same message. This file does not need MPI."""

import os
import sysconfig
import traceback
from pathlib import Path

from refimpl.words import ranks_named

STDLIB = sysconfig.get_paths()["stdlib"]
PROJECT = tuple(f"{Path(__file__).parents[2] / name}{os.sep}" for name in ("refimpl", "models", "kernels"))


class CollectiveError(RuntimeError):
    """An error that every rank raises with the same message, whichever rank met it first."""


class Interrupted(CollectiveError):
    """A rank was asked to end by a signal; every rank raises this.

    signal: its number.  at_once: whether it ends at once; False: between two steps, where the state can be saved.
    agreed: whether all ranks already know it.
    """

    def __init__(self, message: str, signal: int, at_once: bool = False, agreed: bool = False):
        super().__init__(message)
        self.signal, self.at_once, self.agreed = signal, at_once, agreed


def interruption(error: BaseException | None) -> BaseException | None:
    """Return the Interrupted that caused an error, or the error itself. Local.

    A signal may come during a library's call. The library may then raise an error of its own instead.
    """
    cause, seen = None if isinstance(error, CollectiveError) else error, set()
    while cause is not None and not isinstance(cause, Interrupted):
        seen.add(id(cause))  # a chain may be a ring: raise error from error
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
        cause = None if id(cause) in seen else cause
    return cause or error


class SilentPeer(CollectiveError):
    """A peer has ended, or has not come within the communicator's time-out. Each rank that waited for it raises this.

    Messages are still under way, so this communicator cannot be used any more.
    """


class PeerDied(SilentPeer):
    """A peer has died. Ranks that can continue without it (``survival``) do so; all others end."""


class CutOff(CollectiveError):
    """Ranks on other machines cannot be reached, and may continue. Each rank of the side that ends raises this."""


class Aborted(CollectiveError):
    """A rank could not continue in the middle of an exchange. It raises this, and so does every rank that waits.

    Messages are still under way, so this communicator cannot be used any more.
    signal: the number of the signal that asked that rank to end; 0: it met an error.
    """

    def __init__(self, message: str, signal: int = 0):
        super().__init__(message)
        self.signal = signal


def silent_peer(rank: int, seconds: float, late, what: str) -> SilentPeer:
    """Return the error of a rank whose wait has timed out. late: the ranks it waited for, empty if unknown. Local."""
    late = sorted(set(late))
    names = ranks_named(late) if late else "the other ranks"
    return SilentPeer(waited_in_vain(rank, f"{seconds:g}", names, what))


def waited_in_vain(rank: int | str, seconds: str, names: str, what: str) -> str:
    """Return the message of a rank whose wait has timed out. names: "rank 1" or "the other ranks". Local."""
    return (f"rank {rank} has waited {seconds} s for {names} in {what}. {names[0].upper()}{names[1:]} may have crashed "
            "or be cut off, or may be stuck or computing longer than --timeout")


def words_of(error: BaseException) -> str:
    """Return an error's text for users, never empty; for a programmer's error (KeyError, …) also its type. Local.

    It also names the innermost line of the user's code; for a programmer's error, of the user's or the project's code.
    """
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r}) was called in the middle of the training"
    if isinstance(error, CollectiveError) and str(error).strip():
        return str(error)
    if isinstance(error, (ValueError, OSError)) and str(error).strip():
        return str(error) + _place(users_frames(error))
    return f"{type(error).__name__}: {error}".removesuffix(": ") + _place(_frames(error))


def users_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of an error's traceback that are in a user's own code, the innermost last. Local.

    Frames of libraries, of Python and of this project are left out.
    """
    return [frame for frame in _frames(error) if not frame.filename.startswith(PROJECT)]


def _frames(error):
    return [frame for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith(("<", STDLIB)) and "site-packages" not in frame.filename]


def _place(frames) -> str:
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno}, in {frames[-1].name})" if frames else ""
