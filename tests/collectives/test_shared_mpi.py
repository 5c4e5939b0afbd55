"""Allreduce through shared memory: provenance and exact sums, the tree's bits for every dtype, the schedule's bytes."""

import gc
from pathlib import Path

import numpy as np
import pytest

from refimpl.collectives import make_schedule
from refimpl.collectives.running.shared import SharedRunner
from refimpl.gradients import fold
from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.machines import in_blocks
from refimpl.transport.memory import peer_memory

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3, 4)]
DTYPES = ["float16", "float32", "float64", "int32", "int64"]
SIZES = [0, 1, 5, 1001, 100003]


def runner_for(communicator, schedule, elements, dtype):
    return SharedRunner.open(schedule, communicator, elements, np.empty(0, dtype), "sum", lambda a, b: {"v": b - a})


def values_of(schedule, elements, dtype):
    """Return rank -> slot -> array, the same on every rank."""
    def draw(rank, slot):
        rng = np.random.default_rng((rank, slot, elements))
        return (rng.standard_normal(elements) * (1 if dtype[0] == "f" else 1e8)).astype(dtype)

    return [[draw(rank, slot) for slot in range(len(nodes))] for rank, nodes in enumerate(schedule.inputs)]


def tree_sum(schedule, values):
    parts = [(node, values[r][s]) for r, nodes in enumerate(schedule.inputs) for s, node in enumerate(nodes)]
    return fold(parts, lambda left, right: left + right)


def give(slots, values):
    for slot, value in zip(slots, values):
        slot[:] = value


def check(communicator, schedule, elements, dtype):
    """Hold sums in place and private, twice, against the tree's bits; and the ledger against the schedule."""
    values = values_of(schedule, elements, dtype)
    expected = tree_sum(schedule, values).tobytes()
    runner, mine = runner_for(communicator, schedule, elements, dtype), values[communicator.rank]
    for _ in range(2):
        give(runner.slots, mine)
        assert runner().tobytes() == expected
        runner.release()
        private = [v.copy() for v in mine] or [np.empty(elements, dtype)]
        assert runner(private) is private[0] and private[0].tobytes() == expected
        assert [p.tobytes() for p in private[1:]] == [v.tobytes() for v in mine[1:]]
    sent, ledger = np.dtype(dtype).itemsize * schedule.elements_sent(elements)[communicator.rank], communicator.ledger
    assert ledger.total("sent", phase="sum", variable="v", kind="dense") == 4 * sent == ledger.total("sent")
    totals = communicator.share(np.array([ledger.total("sent"), ledger.total("received")]), "check").sum(0)
    assert totals[0] == totals[1]


@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.thorough("float32", "float16-1001")  # of each dtype: tests/kernels/test_shared_sum.py
def test_the_trees_bits_and_the_schedules_bytes(comm, dtype, elements):
    check(Communicator.of(comm), make_schedule("direct", comm.size, comm.size), elements, dtype)


@pytest.fixture(params=["pipelined", "where they lie", "one rank's cannot be reached"])
def path(request, monkeypatch, comm):
    """Private arrays of any length take this path."""
    monkeypatch.setattr(peer_memory, "LONG", 1 << 60 if request.param == "pipelined" else 0)
    monkeypatch.setattr(peer_memory, "COPIES", 1)
    monkeypatch.setattr(peer_memory, "SMALLEST_SEGMENT", 4096)
    if request.param != "pipelined" and not peer_memory.ranks_reach_each_other(Communicator.of(comm)):
        pytest.skip("this host lets no process reach another's memory")
    if request.param.startswith("one") and comm.rank == comm.size - 1:
        monkeypatch.setattr(peer_memory, "attachable", lambda array: False)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_every_path_of_private_arrays_has_the_trees_bits(comm, path, dtype):
    for leaves in (comm.size, 2 * comm.size + 1):
        check(Communicator.of(comm), make_schedule("direct", comm.size, leaves), 40001, dtype)


@pytest.mark.parametrize("leaves", [1, 3, 7, 8])
def test_several_nodes_a_rank_and_ranks_without_input(comm, leaves):
    for elements in (5, 40001):
        check(Communicator.of(comm), make_schedule("direct", comm.size, leaves), elements, "float32")


@pytest.mark.parametrize("elements", [3, 40001, 300001])
@pytest.mark.thorough("40001")
def test_calls_in_any_order_never_mix(comm, path, elements):
    communicator = Communicator.of(comm)
    runner = runner_for(communicator, make_schedule("direct", communicator.size, communicator.size), elements, np.int64)
    private = np.empty(elements, np.int64)
    chance, place = np.random.default_rng(3), np.arange(elements)
    for call in range(60 if elements < 1000 else 20):
        value = place + 1000 * call
        if chance.integers(2):
            runner.slots[0][:] = value + communicator.rank
            result = runner()
        else:
            private[:] = value + communicator.rank
            result = runner([private])
        assert (result == communicator.size * value + sum(range(communicator.size))).all()
        if result is not private:
            runner.release()


@pytest.mark.parametrize("each", [1, 2, 3])
@pytest.mark.parametrize("elements", [0, 5, 100003])
def test_several_machines_inside_memory_across_messages(comm, each, elements):
    machines = in_blocks(comm.size, each)
    schedule = make_schedule("hierarchical", comm.size, comm.size, machines=machines)
    communicator = Communicator(comm, machines)
    places = range(comm.size)
    runner = runner_for(communicator, schedule, elements, np.int64)
    for _ in range(3):
        runner.slots[0][:] = 4**communicator.rank
        assert (runner() == sum(4**r for r in places)).all()
        runner.release()
        assert (runner([np.full(elements, 4**communicator.rank)]) == sum(4**r for r in places)).all()
    assert communicator.ledger.total("sent") == 6 * 8 * schedule.elements_sent(elements)[communicator.rank]


@pytest.mark.mpi(min_size=5)
@pytest.mark.parametrize("elements", [1, 40001])
def test_more_ranks(comm, elements):
    for leaves in (3, comm.size, 2 * comm.size + 1):
        check(Communicator.of(comm), make_schedule("direct", comm.size, leaves), elements, "float32")
    for each in (2, 3):
        communicator = Communicator(comm, in_blocks(comm.size, each))
        schedule = make_schedule("hierarchical", comm.size, comm.size, machines=communicator.machines)
        check(communicator, schedule, elements, "int64")


def test_what_does_not_fit_is_refused_on_every_rank(comm):
    communicator = Communicator.of(comm)
    direct = make_schedule("direct", communicator.size, communicator.size)
    with pytest.raises(CollectiveError, match="no shared-memory sum of complex64"):
        runner_for(communicator, direct, 3, np.complex64)
    with pytest.raises(CollectiveError, match="not builtins arrays"):
        SharedRunner.open(direct, communicator, 3, [1.0], "sum", lambda a, b: {})
    if communicator.size > 1:
        with pytest.raises(CollectiveError, match="disagree"):
            runner_for(communicator, direct, 3 + (communicator.rank == 0), np.float32)
    if communicator.size > 2:
        with pytest.raises(CollectiveError, match="use direct"):
            runner_for(communicator, make_schedule("ring", communicator.size, communicator.size), 3, np.float32)
    runner = runner_for(communicator, direct, 3, np.float32)
    for wrong in ([], [np.empty(3)], [np.empty(4, np.float32)], [np.empty(6, np.float32)[::2]]):
        with pytest.raises(ValueError):
            runner(wrong)


def mapped():
    """Return how much memory this process maps that it shares through files of ours."""
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "/refimpl-" in line]


@pytest.mark.thorough
def test_memory_is_given_back_when_the_last_array_of_it_is_dropped(comm):
    communicator = Communicator.of(comm)
    schedule = make_schedule("direct", communicator.size, communicator.size)
    gc.collect()
    kept, before = None, len(mapped())
    for number in range(6):
        runner = runner_for(communicator, schedule, 10_000, np.float64)  # a short sum would be each rank's own
        runner.slots[0][:] = number
        result = runner()
        if number == 2 and communicator.rank == 0:
            kept = result
        del runner, result
        gc.collect()
    assert (kept is None) == (communicator.rank > 0) and (communicator.rank or (kept == 2 * communicator.size).all())
    assert len(mapped()) == before + (communicator.rank == 0)
    assert all(line.endswith("(deleted)") for line in mapped())  # nobody has to remove a file, however a rank ends
