"""The job that a process is a rank of, for who has no Communicator: its end, and MPI itself, loaded if asked for."""

import sys
from contextlib import suppress


def end_job(status: int) -> int:
    """End every rank of a job of several at once; in a job of one, or none, just return the status. Local."""
    MPI = sys.modules.get("mpi4py.MPI")  # who has not loaded MPI is no rank
    if MPI is not None and MPI.Is_initialized() and not MPI.Is_finalized() and MPI.COMM_WORLD.Get_size() > 1:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # nobody reads it any more
                stream.flush()
        MPI.COMM_WORLD.Abort(status)
    return status


def all_ranks():
    """Return mpi4py's communicator of all ranks of the job: for lessons, which show MPI itself. Local."""
    from mpi4py import MPI

    return MPI.COMM_WORLD
