"""Time schedules on the ranks of a running job, one's own among them: for notebooks."""

import numpy as np

from refimpl.collectives.running.runner import Runner
from refimpl.experiments.bench.together import check_sum, race_together
from refimpl.transport import Communicator


def time_schedules(comm, schedules, elements: int, seconds: float = 2.0, rounds: int = 3) -> dict[str, float]:
    """Return name -> seconds of an allreduce of ``elements`` float32 by each schedule, rounds interleaved.

    Raises CollectiveError, on every rank, for a schedule that gives a wrong sum. Collective over ``comm``.
    """
    comm, work = Communicator.of(comm), {}
    for schedule in schedules:
        vector = np.empty(elements, np.float32)
        runner = Runner(schedule, comm, elements, vector, "bench", lambda start, stop: {"vector": stop - start})
        work[schedule.name] = lambda runner=runner, vector=vector: runner([vector])
        check_sum(comm, schedule.name, vector, work[schedule.name])
    rows = race_together(comm, "schedules", "", work, {}, seconds, rounds)
    return {row.name: row.seconds for row in rows}
