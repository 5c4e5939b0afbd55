"""The pipelined runner over real MPI: every dtype, in many segments, called again and again, counted to the byte."""

import importlib

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import ALGORITHMS, HALVES, make_schedule, run_local
from refimpl.collectives.running import run, segments
from refimpl.collectives.running.pipeline import Pipeline
from refimpl.collectives.running.runner import REMEMBERED, ScheduleRunner
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

running = importlib.import_module("refimpl.collectives.running.runner")  # the package's own ``run`` is the function
pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
DTYPES = ("float16", "float32", "float64", "int32", "int64")


def _across(comm):
    """A communicator whose every rank is a machine: within one machine nothing is cut into segments."""
    return Communicator(comm, machines=in_blocks(comm.size, 1))


def _usable(algorithm, ranks):
    return algorithm != "halving-doubling" or ranks & (ranks - 1) == 0


def _runner(schedule, communicator, elements, dtype):
    return ScheduleRunner(schedule, communicator, elements, np.empty(0, dtype), "t", lambda a, b: {"v": b - a})


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 40)


def _inputs(schedule, elements, dtype):
    """Every rank's slots; any order of summation is told from any other, except for integers."""
    def values(rank, slot):
        noise = np.random.default_rng((rank, slot)).standard_normal(elements)
        return (noise * 1000).astype(dtype)
    return [[values(r, s) for s in range(max(1, len(nodes)))] for r, nodes in enumerate(schedule.inputs)]


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.thorough("float16", "float32-hierarchical", "int64-ring", "halving")  # which is not for 3 ranks
def test_segments_change_no_bit_and_no_byte(comm, small_pieces, algorithm, dtype):
    if not _usable(algorithm, comm.size):
        pytest.skip(f"{algorithm} is not for {comm.size} ranks")
    machines = in_blocks(comm.size, 2) if algorithm == "hierarchical" else None
    odd = 3 if algorithm != "halving-doubling" else 4  # which needs a power of two of microbatches, too
    for each, elements in ((1, 1001), (2, 64), (odd, 3), (1, 0)):
        schedule = make_schedule(algorithm, comm.size, comm.size * each, machines=machines)
        _check(_across(comm), schedule, elements, dtype)
    _check(Communicator.of(comm), schedule, 1001, dtype)  # on one machine nothing is cut


def _check(communicator, schedule, elements, dtype):
    """Hold a schedule's result, bits and bytes, to what it gives in one process."""
    inputs = _inputs(schedule, elements, dtype)
    mine = [array.copy() for array in inputs[communicator.rank]]
    communicator.ledger.clear()
    result = run(schedule, communicator, mine)
    assert result is mine[0]
    assert result.tobytes() == run_local(schedule, inputs)[communicator.rank].tobytes()
    size = np.dtype(dtype).itemsize
    assert communicator.ledger.total("sent") == size * schedule.elements_sent(elements)[communicator.rank]


def test_halves_and_fewer_microbatches_than_ranks(comm):
    for name in HALVES:
        if _usable(name, comm.size):
            machines = in_blocks(comm.size, 2) if name == "hierarchical" else None
            for kind in ("reduce-scatter", "allgather"):
                schedule = make_schedule(name, comm.size, comm.size, kind, machines)
                _check(Communicator.of(comm), schedule, 37, "float32")
    _check(Communicator.of(comm), make_schedule("direct", comm.size, 1), 9, "float64")


def test_large_vectors_run_in_segments(comm):
    communicator, elements = _across(comm), 3_000_001
    schedule = make_schedule("direct", communicator.size, communicator.size)
    runner = _runner(schedule, communicator, elements, np.int64)
    assert runner.cut.segments > 1 or communicator.size == 1
    mine = np.arange(elements) * 4**communicator.rank
    assert (runner([mine]) == np.arange(elements) * sum(4**rank for rank in range(communicator.size))).all()


def test_called_again_it_makes_no_requests_and_forgets_the_oldest(comm, small_pieces, monkeypatch):
    communicator = _across(comm)
    made = []
    monkeypatch.setattr(running, "Pipeline", lambda *given: made.append(1) or Pipeline(*given))
    runner = _runner(make_schedule("ring", communicator.size, communicator.size), communicator, 100, np.int64)
    arrays = [np.empty(100, np.int64) for _ in range(REMEMBERED + 1)]
    for times in range(3):
        for array in arrays[:REMEMBERED]:
            array[:] = 1
            assert (runner([array]) == communicator.size).all()
        assert len(made) == REMEMBERED
    for array in arrays[::-1]:
        array[:] = 2
        assert (runner([array]) == 2 * communicator.size).all()
    assert len(runner.pipelines) == REMEMBERED


def test_trees_and_others_under_way_at_once_share_no_lane(comm):
    """As on a mesh. Ranks begin the two sums in different orders."""
    schedules = [make_schedule(name, comm.size, comm.size) for name in (f"canonical-trees:ring-{comm.size}", "direct")]
    most, given = segments.lanes_of(schedules[0]), [_inputs(schedule, 500, "int64") for schedule in schedules]
    runners = [ScheduleRunner(schedule, _across(comm), 500, np.empty(0, np.int64), "t", lambda a, b: {"v": b - a}, c)
               for schedule, c in zip(schedules, (segments.LANES, most))]
    expected = [sum(slots[0] for slots in every) for every in given]
    given[1][comm.rank][0] *= 2
    begun = {number: runners[number].begin(given[number][comm.rank]) for number in (0, 1)[::1 - 2 * (comm.rank % 2)]}
    for number in (0, 1):
        begun[number].finish()
        assert np.array_equal(given[number][comm.rank][0], (number + 1) * expected[number])


def test_refuses_what_does_not_fit(comm):
    communicator = Communicator.of(comm)
    uneven = make_schedule("direct", communicator.size, 3 * communicator.size)  # 3 microbatches, two nodes each
    runner = _runner(uneven, communicator, 10, np.float32)
    good = np.zeros(10, np.float32)
    runner([good, good.copy()])  # a later call with other arrays is checked, too
    for slots, words in (
        ([good], "wants 2 inputs"),
        ([good, np.zeros(10)], "slot 1 has shape .10,. and dtype float64"),
        ([np.zeros(11, np.float32), good], "slot 0 has shape .11,."),
        ([good, np.zeros(20, np.float32)[::2]], "slot 1 is not contiguous"),
        ([good, good], "different arrays"),
    ):
        with pytest.raises(ValueError, match=words):
            runner(slots)
    with pytest.raises(ValueError, match="is for 9 ranks"):
        _runner(make_schedule("ring", 9, 9), communicator, 10, np.float32)


def test_exchange_moves_half_precision(comm):
    communicator = Communicator.of(comm)
    found = communicator.share(np.array([communicator.rank, 0.5], np.float16), "t")
    assert found.tolist() == [[r, 0.5] for r in range(communicator.size)]
    assert MPI.COMM_WORLD.size == communicator.size
