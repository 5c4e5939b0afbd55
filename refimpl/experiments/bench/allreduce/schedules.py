"""Check sums of an allreduce; time schedules, also a student's own, on the ranks of a running job. For notebooks."""

import numpy as np

from kernels.arrays import array_module
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.experiments.bench.timing import take_turns, time_together
from refimpl.transport import Communicator


def time_schedules(comm, schedules, elements: int, turns: int) -> dict[str, list[float]]:
    """Return name -> seconds of an allreduce of ``elements`` float32, on the slowest rank, in each turn.

    The schedules take turns, so that a slow moment of the machine affects all. Collective over ``comm``. Raises
    CollectiveError, on every rank, for a schedule that gives a wrong sum.
    """
    comm, work = Communicator.of(comm), {}
    for schedule in schedules:
        vector = np.empty(elements, np.float32)
        runner = ScheduleRunner(schedule, comm, elements, vector, "bench", lambda start, stop: {"vector": stop - start})
        work[schedule.name] = lambda runner=runner, vector=vector: runner([vector])
        check_sum(comm, schedule.name, vector, work[schedule.name])
    return take_turns(work, turns, lambda _, function: time_together(comm, function, 1))


def check_sum(comm, name: str, array, allreduce) -> None:
    """Check the sum of integers, which is exact; leave zeros, so that the array's memory is allocated. Collective.

    array: this rank's contribution.  allreduce() -> the sum.  Raises CollectiveError on every rank if it is wrong.
    """
    place = array_module(array).arange(array.size) % 97
    array[...] = place * (comm.rank + 1)
    right = bool((allreduce() == place * (comm.size * (comm.size + 1) // 2)).all())
    comm.agree(None if right else ValueError(f"{name} gives a wrong sum of {array.size} elements"))
    array[...] = 0
    comm.meet("a benchmark")
