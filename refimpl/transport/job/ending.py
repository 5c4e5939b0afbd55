"""End a job: all its ranks at once, or together. ``all_ranks`` loads MPI for lessons."""

import atexit
import os
import signal
import sys
import threading
from contextlib import suppress

from refimpl.transport.errors import Aborted, CutOff, SilentPeer
from refimpl.transport.job.supervisor import TIMEOUT_SECONDS, told, waiting

ASK_TO_END = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which someone asks a rank to end."""

PARTING_SECONDS = 2.0
"""The seconds that every rank has to print its error before the first rank ends all."""

FINALIZE_SECONDS = 7.0
"""The seconds that ranks have to finalize MPI after all have printed their error."""


def end_job(status: int) -> int:
    """End all ranks at once, if there are several. Otherwise only return the status. Local."""
    told("said")
    if MPI := _of_several():
        _be_deaf()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the reader of the stream has ended
                stream.flush()
        waiting(FINALIZE_SECONDS, "MPI_Abort")
        MPI.COMM_WORLD.Abort(status)
    return status


def leave(status: int, error: BaseException) -> int:
    """Return the status when every rank has reported its error, or end all ranks. Collective over the living ranks.

    After SilentPeer or Aborted it ends all ranks: messages are still under way, so MPI cannot be finalized.
    """
    if isinstance(error, CutOff):  # the other side may go on: after a status that is not 0 the launcher would end it
        told("lost")
        os.kill(os.getpid(), signal.SIGKILL)
    if MPI := _of_several():
        from refimpl.transport.abort import AbortMessages

        _be_deaf()
        told("said")
        try:
            together = AbortMessages(MPI.COMM_WORLD).part(PARTING_SECONDS)
        except MPI.Exception:  # a rank has died, and the others had continued without it
            together = False
        if isinstance(error, (SilentPeer, Aborted)) or not together:
            return end_job(status)
        waiting(FINALIZE_SECONDS, "MPI_Finalize")
    return status


def tell_end():
    """Let this rank tell the others when its program ends, so that none of them waits for it then. Local."""
    atexit.unregister(_ended)
    atexit.register(_ended, os.getpid())


def _ended(process):
    if os.getpid() == process and (MPI := _of_several()):  # a child of a fork is no rank
        from refimpl.transport.abort import AbortMessages

        with suppress(MPI.Exception):  # a rank has died, without which the others had gone on
            AbortMessages(MPI.COMM_WORLD).end(TIMEOUT_SECONDS)  # rank 0 may evaluate or write meanwhile


def _be_deaf():
    """Ignore signals that ask this rank to end: it is ending already, and has reported why."""
    if threading.current_thread() is threading.main_thread():
        for number in ASK_TO_END:
            signal.signal(number, signal.SIG_IGN)


def _of_several():
    """Return mpi4py's MPI if this process is one of several ranks. Local."""
    MPI = sys.modules.get("mpi4py.MPI")  # a process that has not loaded MPI is no rank
    alive = MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized()
    return MPI if alive and MPI.COMM_WORLD.Get_size() > 1 else None


def all_ranks():
    """Return mpi4py's communicator of all ranks of the job, for lessons that show MPI itself. Local."""
    from mpi4py import MPI

    return MPI.COMM_WORLD
