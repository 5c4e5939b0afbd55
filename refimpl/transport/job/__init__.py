"""The job to which a rank's process belongs: how it is watched, and how it ends. No Communicator is needed.

    ending      ends all ranks, at once or together; gives lessons MPI's communicator
    host        this host: how many ranks share its cores
    hosts       a file of hosts: which of them answer
    leftovers   removes what killed jobs left in shared memory
    uncaught    prints an error that a user's own program does not catch
    supervisor  the parent process of each rank, which reports errors that the rank cannot report
"""

from refimpl.transport.job.ending import all_ranks, end_job, leave

__all__ = ["all_ranks", "end_job", "leave"]
