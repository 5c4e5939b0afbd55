"""Time schedules on the ranks of a running job, one's own among them: for notebooks."""

import numpy as np

from refimpl.collectives.running.runner import Runner
from refimpl.experiments.bench.together import race_together
from refimpl.transport import Communicator


def time_schedules(comm, schedules, elements: int, seconds: float = 2.0, rounds: int = 3) -> dict[str, float]:
    """Return name -> seconds of an allreduce of ``elements`` float32 by each schedule, rounds interleaved.

    Raises CollectiveError, on every rank, for a schedule that gives a wrong sum. Collective over ``comm``.
    """
    comm, work = Communicator.of(comm), {}
    for schedule in schedules:
        vector = np.empty(elements, np.float32)
        runner = Runner(schedule, comm, elements, vector, "bench", lambda start, stop: {"vector": stop - start})
        _check(comm, schedule, vector, runner)
        work[schedule.name] = lambda runner=runner, vector=vector: runner([vector])
    rows = race_together(comm, "schedules", "", work, {}, seconds, rounds)
    return {row.name: row.seconds for row in rows}


def _check(comm, schedule, vector, runner):
    """Sum whole numbers, whose sum has no rounding error; leave zeros."""
    place = np.arange(vector.size) % 97
    vector[...] = place * (comm.rank + 1)
    wrong = not (runner([vector]) == place * (comm.size * (comm.size + 1) // 2)).all()
    comm.agree(ValueError(f"{schedule.name} gives a wrong sum") if wrong else None)
    vector[...] = 0
