"""The job that a process is a rank of: how it is watched, and how all of it ends. For who has no Communicator, too.

    ending      the end of all ranks at once, or together; MPI itself, loaded if asked for
    leftovers   what killed jobs left in shared memory
    uncaught    how an error is told that a user's own program does not catch
    supervisor  the process above each rank, which has the last word
"""

from refimpl.transport.job.ending import all_ranks, end_job, leave

__all__ = ["all_ranks", "end_job", "leave"]
