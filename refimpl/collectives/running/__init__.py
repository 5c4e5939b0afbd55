"""Run schedules on a rank's own arrays: by messages in segments, in shared memory, by NCCL. Nothing here uses MPI."""

from refimpl.handed_on import handed_on

_HOME = {"ScheduleRunner": "refimpl.collectives.running.runner", "run": "refimpl.collectives.running.runner",
         "open_allreduce": "refimpl.collectives.running.allreduce"}

__all__ = ["ScheduleRunner", "open_allreduce", "run"]
__getattr__, __dir__ = handed_on(__name__, _HOME)
