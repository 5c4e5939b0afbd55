"""The pipelined runner over real MPI: every dtype, in many segments, called again and again, counted to the byte."""

import importlib

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import ALGORITHMS, Wire, make_schedule, run, run_local, segments
from refimpl.collectives.machines import in_blocks
from refimpl.collectives.pipeline import Pipeline
from refimpl.collectives.run import REMEMBERED, Runner

running = importlib.import_module("refimpl.collectives.run")  # the package's own ``run`` is the function
pytestmark = pytest.mark.mpi
DTYPES = ("float16", "float32", "float64", "int32", "int64")


def _across(comm):
    """A wire whose every rank is a machine: within one machine nothing is cut into segments."""
    return Wire(comm, machines=in_blocks(comm.size, 1))


def _usable(algorithm, ranks):
    return algorithm != "halving-doubling" or ranks & (ranks - 1) == 0


def _runner(schedule, wire, elements, dtype, **options):
    like = np.empty(0, dtype)
    return Runner(schedule, wire, elements, like, "t", lambda start, stop: {"v": stop - start}, **options)


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 40)
    monkeypatch.setattr(running, "LANES", 3)


def _inputs(schedule, elements, dtype):
    """Every rank's slots; any order of summation is told from any other, except for integers."""
    def values(rank, slot):
        noise = np.random.default_rng((rank, slot)).standard_normal(elements)
        return (noise * 1000).astype(dtype)
    return [[values(r, s) for s in range(max(1, len(nodes)))] for r, nodes in enumerate(schedule.inputs)]


@pytest.mark.parametrize("algorithm", ["auto", *ALGORITHMS])
@pytest.mark.parametrize("dtype", DTYPES)
def test_segments_change_no_bit_and_no_byte(comm, small_pieces, algorithm, dtype):
    wire = _across(comm)
    if not _usable(algorithm, wire.size):
        pytest.skip(f"{algorithm} is not for {wire.size} ranks")
    for each, elements in ((1, 1001), (2, 64), (1, 3)):
        machines = in_blocks(wire.size, 2) if algorithm == "hierarchical" else None
        schedule = make_schedule(algorithm, wire.size, wire.size * each, machines=machines)
        inputs = _inputs(schedule, elements, dtype)
        mine = [array.copy() for array in inputs[wire.rank]]
        wire.ledger.clear()
        result = run(schedule, wire, mine)
        assert result is mine[0]
        assert result.tobytes() == run_local(schedule, inputs)[wire.rank].tobytes()
        size = np.dtype(dtype).itemsize
        assert wire.ledger.total("sent") == size * schedule.elements_sent(elements)[wire.rank]


def test_large_vectors_run_in_segments(comm):
    wire, elements = _across(comm), 3_000_001
    schedule = make_schedule("direct", wire.size, wire.size)
    runner = _runner(schedule, wire, elements, np.int64)
    assert runner.cut.segments > 1 or wire.size == 1
    mine = np.arange(elements) * 4**wire.rank
    assert (runner([mine]) == np.arange(elements) * sum(4**rank for rank in range(wire.size))).all()


def test_called_again_it_makes_no_requests_and_forgets_the_oldest(comm, small_pieces, monkeypatch):
    wire = _across(comm)
    made = []
    monkeypatch.setattr(running, "Pipeline", lambda *given: made.append(1) or Pipeline(*given))
    runner = _runner(make_schedule("ring", wire.size, wire.size), wire, 100, np.int64)
    arrays = [np.empty(100, np.int64) for _ in range(REMEMBERED + 1)]
    for times in range(3):
        for array in arrays[:REMEMBERED]:
            array[:] = 1
            assert (runner([array]) == wire.size).all()
        assert len(made) == REMEMBERED
    for array in arrays[::-1]:
        array[:] = 2
        assert (runner([array]) == 2 * wire.size).all()
    assert len(runner.pipelines) == REMEMBERED


def test_some_rounds_on_the_callers_slots(comm, small_pieces):
    """The two halves of a schedule, one runner each: what runs between shared memory and the network."""
    wire, elements = _across(comm), 777
    schedule = make_schedule("direct", wire.size, wire.size)
    first = _runner(schedule, wire, elements, np.int64, rounds=schedule.rounds[:1], given=1)
    second = _runner(schedule, wire, elements, np.int64, rounds=schedule.rounds[1:], given=1)
    vector = np.full(elements, 4**wire.rank)
    second([first([vector])])
    assert (vector == sum(4**rank for rank in range(wire.size))).all()
    assert wire.ledger.total("sent") == 8 * schedule.elements_sent(elements)[wire.rank]


def test_refuses_what_does_not_fit(comm):
    wire = Wire(comm)
    runner = _runner(make_schedule("ring", wire.size, wire.size), wire, 10, np.float32, given=2)
    good = np.zeros(10, np.float32)
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
        _runner(make_schedule("ring", 9, 9), wire, 10, np.float32)


def test_exchange_moves_half_precision(comm):
    wire = Wire(comm)
    assert wire.share(np.array([wire.rank, 0.5], np.float16), "t").tolist() == [[r, 0.5] for r in range(wire.size)]
    assert MPI.COMM_WORLD.size == wire.size
