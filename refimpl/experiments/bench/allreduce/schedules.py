"""Time schedules on the ranks of a running job, one's own among them: for notebooks."""

import numpy as np

from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.experiments.bench.together import check_sum, time_together
from refimpl.transport import Communicator


def time_schedules(comm, schedules, elements: int, turns: int) -> dict[str, list[float]]:
    """Return name -> seconds of an allreduce of ``elements`` float32, on the slowest rank, in each turn.

    The schedules take turns, so that a slow moment of the machine falls on all. Collective over ``comm``. Raises
    CollectiveError, on every rank, for a schedule that gives a wrong sum.
    """
    comm, work = Communicator.of(comm), {}
    for schedule in schedules:
        vector = np.empty(elements, np.float32)
        runner = ScheduleRunner(schedule, comm, elements, vector, "bench", lambda start, stop: {"vector": stop - start})
        work[schedule.name] = lambda runner=runner, vector=vector: runner([vector])
        check_sum(comm, schedule.name, vector, work[schedule.name])
    rounds = [{name: time_together(comm, function, 1) for name, function in work.items()} for _ in range(turns)]
    return {name: [took[name] for took in rounds] for name in work}
