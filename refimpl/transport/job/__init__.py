"""The job to which a process belongs as a rank: how it is watched, and how it ends. No Communicator is needed.

    ending      ends all ranks at once, or together; loads MPI itself if asked to
    host        this host: how many ranks share its cores
    hosts       a file of hosts: which of them answer
    leftovers   removes what killed jobs left in shared memory
    uncaught    prints an error that a user's own program does not catch
    supervisor  the process above each rank, which reports what the rank no longer can
"""

from refimpl.transport.job.ending import all_ranks, end_job, leave

__all__ = ["all_ranks", "end_job", "leave"]
