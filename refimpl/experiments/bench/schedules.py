"""Time schedules on the ranks of a running job, one's own among them: for notebooks."""

import numpy as np

from refimpl.collectives import Wire
from refimpl.collectives.run import Runner
from refimpl.experiments.bench.together import race_together


def time_schedules(comm, schedules, elements: int, seconds: float = 2.0, rounds: int = 3) -> dict[str, float]:
    """Return name -> seconds of an allreduce of ``elements`` float32 by each schedule, rounds interleaved.

    Raises CollectiveError, on every rank, for a schedule that gives a wrong sum. Collective over ``comm``.
    """
    wire, work = Wire(comm), {}
    for schedule in schedules:
        vector = np.empty(elements, np.float32)
        runner = Runner(schedule, wire, elements, vector, "bench", lambda start, stop: {"vector": stop - start})
        _check(wire, schedule, vector, runner)
        work[schedule.name] = lambda runner=runner, vector=vector: runner([vector])
    rows = race_together(comm, "schedules", "", work, {}, seconds, rounds)
    return {row.name: row.seconds for row in rows}


def _check(wire, schedule, vector, runner):
    """Sum whole numbers, whose sum has no rounding error; leave zeros."""
    place = np.arange(vector.size) % 97
    vector[...] = place * (wire.rank + 1)
    wrong = not (runner([vector]) == place * (wire.size * (wire.size + 1) // 2)).all()
    wire.agree(ValueError(f"{schedule.name} gives a wrong sum") if wrong else None)
    vector[...] = 0
