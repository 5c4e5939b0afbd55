"""Run schedules on a rank's own arrays: by messages in segments, in shared memory, by NCCL. Nothing here knows MPI."""

from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.collectives.running.runner import ScheduleRunner, run

__all__ = ["ScheduleRunner", "open_allreduce", "run"]
