"""Schedules are timed on the ranks of a job, after their sums were checked."""

from dataclasses import replace

import pytest

from refimpl.collectives import make_schedule
from refimpl.experiments.bench.allreduce.schedules import time_schedules
from refimpl.transport import CollectiveError


@pytest.mark.mpi
@pytest.mark.ranks(3)
def test_each_schedule_is_timed_and_a_wrong_one_refused_on_every_rank(comm):
    schedules = [make_schedule(name, comm.size, comm.size) for name in ("ring", "direct")]
    times = time_schedules(comm, schedules, 101, turns=3)
    assert list(times) == ["ring", "direct"]
    assert all(len(took) == 3 and min(took) > 0 for took in times.values())
    assert comm.allgather(times) == [times] * comm.size
    if comm.size > 1:
        broken = replace(schedules[0], name="broken", rounds=schedules[0].rounds[:-1])
        with pytest.raises(CollectiveError, match="broken gives a wrong sum"):
            time_schedules(comm, [broken], 101, turns=1)
