"""Compiled rounds over real MPI: the sums and bytes of the rounds in Python, also when a rank comes late."""

import time
from operator import iadd

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import ALGORITHMS, make_schedule, run_local
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.transport import Communicator, rounds
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(2, 3, 4)]


def _runner(comm, algorithm, elements, dtype, add=iadd):
    across = Communicator(comm, machines=in_blocks(comm.size, 1))  # each rank is a machine
    schedule = make_schedule(algorithm, comm.size, comm.size)
    like = np.empty(0, dtype)
    return schedule, ScheduleRunner(schedule, across, elements, like, "t", lambda a, b: {"v": b - a}, add=add)


def _inputs(schedule, elements, dtype):
    """Return every rank's slots, of values of very different sizes: every order of addition gives other bits."""
    def values(rank):
        noise = np.random.default_rng(rank).standard_normal((2, elements))
        return (noise[0] * 10.0 ** (3 * noise[1])).astype(dtype)
    return [[values(rank) for _ in range(max(1, len(nodes)))] for rank, nodes in enumerate(schedule.inputs)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("late", [False, True])
def test_the_same_bits_and_bytes_as_rounds_in_python(comm, dtype, late):
    for algorithm in ALGORITHMS:
        if algorithm == "hierarchical" or algorithm == "halving-doubling" and comm.size == 3:
            continue
        for elements in (1, 2, 7, 1001):
            schedule, runner = _runner(comm, algorithm, elements, dtype)
            for again in range(2):
                inputs = _inputs(schedule, elements, dtype)
                mine = [array.copy() for array in inputs[comm.rank]]
                runner.comm.ledger.clear()
                if late and comm.rank == again and elements == 7:
                    time.sleep(0.02)  # the others return from compiled code and sleep
                assert runner(mine).tobytes() == run_local(schedule, inputs)[comm.rank].tobytes()
                assert runner.latest[0].in_one_call
                sent = np.dtype(dtype).itemsize * schedule.elements_sent(elements)[comm.rank]
                assert runner.comm.ledger.total("sent") == sent


def test_python_runs_the_rounds_of_another_sum(comm):
    schedule, runner = _runner(comm, "direct", 5, np.int64, _greatest)
    assert (runner([np.full(5, comm.rank)]) == comm.size - 1).all() and not runner.latest[0].in_one_call


def test_python_runs_the_rounds_if_mpis_functions_are_not_found(comm, monkeypatch):
    monkeypatch.setattr(rounds, "addresses", list)
    _, runner = _runner(comm, "direct", 5, np.float32)
    assert (runner([np.ones(5, np.float32)]) == comm.size).all() and not runner.latest[0].in_one_call


def _greatest(into, other):
    np.maximum(into, other, out=into)


def test_a_failure_of_mpi_is_raised_and_its_requests_are_kept(comm, monkeypatch):
    _, runner = _runner(comm, "direct", 5, np.float32)
    vector = np.ones(5, np.float32)
    runner([vector])

    def fail(table, *_):
        table[rounds.RESULT] = MPI.ERR_TRUNCATE
        return -1

    monkeypatch.setattr(rounds, "run_rounds", fail)
    with pytest.raises(MPI.Exception) as caught:
        runner([vector])
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    assert all(step.messages.left for step in runner.latest[0].lanes[0] if step.messages)
    for step in runner.latest[0].lanes[0]:
        if step.messages:
            step.messages.left = []  # none was started here, so they can be freed
