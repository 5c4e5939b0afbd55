"""What is asked of NCCL, call by call; and what a rank says when NCCL, or another rank, fails it."""

import threading

import numpy as np
import pytest

from kernels import RowGradient
from models import Uniform, Variable
from refimpl.collectives import check_programs, make_schedule
from refimpl.collectives.running.runner import ScheduleRunner
from refimpl.gradients import leaves_of
from refimpl.plan import Placement, Plan
from refimpl.strategies import ServedRows
from refimpl.transport import Aborted, CollectiveError, Communicator, SilentPeer
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]


@pytest.fixture
def calls(cupy):
    """The calls of streams, events and NCCL since the fixture was last cleared."""
    from cupy import standin

    standin.calls.clear()
    yield standin.calls
    standin.calls.clear()


@pytest.fixture
def nccl(cupy):
    from cupy.cuda import nccl

    yield nccl
    nccl.give_up()
    for thread in threading.enumerate():
        if thread.name == "nccl":
            thread.join()
    nccl.fail(0)


def _comm(comm, machines=None, **options):
    communicator = Communicator(comm, machines) if machines else Communicator.of(comm, **options)
    communicator.add_device(0, "nccl")
    comm.Barrier()  # what one rank does next is no part of how another connects
    return communicator


def _renamed(calls):
    """Return calls with events numbered as they come, and NCCL's stream called 1 (the current one is 0)."""
    events, found = {}, []
    for name, *rest in calls:
        if name == "Event.record":
            rest = [events.setdefault(rest[0], len(events)), int(rest[1] > 0)]
        elif name == "Stream.wait_event":
            rest = [int(rest[0] > 0), events[rest[1]]]
        elif name in ("nccl.send", "nccl.recv"):
            rest = [rest[0], rest[1], int(rest[2] > 0)]
        found.append((name, *rest))
    return found


@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_the_calls_of_a_schedule_are_these_and_no_others(comm, cupy, calls, algorithm):
    """Round by round: NCCL's stream waits for the current one, moves one group, and the current stream waits for it."""
    communicator, n, me = _comm(comm), comm.size, comm.rank
    schedule = make_schedule(algorithm, n, n)
    vector = cupy.ones(n * 5, cupy.float32)
    runner = ScheduleRunner(schedule, communicator, n * 5, vector, "test", lambda start, stop: {})
    calls.clear()
    runner([vector])
    if algorithm == "ring":
        rounds = [([(me - 1) % n], [(me + 1) % n])] * (2 * (n - 1))
    else:
        rounds = [([(me - k) % n for k in range(1, n)], [(me + k) % n for k in range(1, n)])] * 2
    expected = []
    for number, (sources, destinations) in enumerate(rounds):
        ready, done = 2 * number, 2 * number + 1
        expected += [("Event.record", ready, 0), ("Stream.wait_event", 1, ready), ("nccl.groupStart",)]
        expected += [("nccl.recv", 20, peer, 1) for peer in sources]
        expected += [("nccl.send", 20, peer, 1) for peer in destinations]
        expected += [("nccl.groupEnd",), ("Event.record", done, 1), ("Stream.wait_event", 0, done)]
    assert _renamed(calls) == expected
    assert (vector.get() == n).all()


@pytest.mark.parametrize("each", [1, 2])
def test_the_server_asks_in_an_order_in_which_nobody_waits_in_a_circle(comm, cupy, calls, each):
    """Every rank's groups, one after the other, meet those of the others, byte for byte: see ``check_programs``."""
    from nccl_order import programs_of  # beside the stand-in

    machines = in_blocks(comm.size, each)
    communicator = _comm(comm, machines=machines)
    table = Variable("table", (37, 3), sparse=True, initial=Uniform(1.0))
    strategy = ServedRows(tuple(p % comm.size for p in range(2 * comm.size + 1)), "interleaved")
    plan = Plan("ps", comm.size, comm.size, "direct", (Placement("table", strategy),), machines)
    exchange = ServedRows.exchange([(table, strategy)], plan, communicator, 1, cupy, True)
    rng = np.random.default_rng(comm.rank)
    ids = np.sort(rng.choice(37, 7 + comm.rank, replace=False))
    calls.clear()
    rows = exchange.pull({"table": ids})["table"]
    assert np.array_equal(rows.get(), table.initial_value(1)[ids])
    for leaf in leaves_of(comm.rank, comm.size, comm.size):
        exchange.add(leaf, {"table": RowGradient(ids, rows)})
    exchange.push()
    programs = programs_of(comm, cupy.standin.groups())
    assert sum(len(groups) for groups in programs) > comm.size
    check_programs(programs, "the server's groups")


@pytest.mark.thorough
def test_a_communicator_that_nobody_uses_any_more_is_taken_again(comm, cupy, calls):
    """To make one takes a second, to destroy one waits for the other ranks: they take it again when all let it go."""
    def made():
        return sum(call[0] == "nccl.init" for call in calls)

    held = []
    while not made():
        held.append(_comm(comm))  # those that tests before this one let go of
    first = _comm(comm)
    kept = first.device_transport.nccl
    assert made() == 2
    if comm.rank:
        del first
    second = _comm(comm)
    assert made() == 3 and second.device_transport.nccl is not kept  # rank 0 has the first one yet
    first = None
    of_another_gpu = comm.rank, comm.size, 1
    assert connections_module().take_again(second, of_another_gpu) == ("", None, None)
    third = _comm(comm)
    assert made() == 3 and third.device_transport.nccl is kept
    vector = cupy.full(5, comm.rank + 1.0)
    third.device_transport.allreduce(vector, "test").wait()
    third.settle()
    assert (vector.get() == comm.size * (comm.size + 1) / 2).all()
    assert not any(call[0] in ("nccl.destroy", "nccl.abort") for call in calls)


def nccl_module():
    from refimpl.transport.device import nccl  # asks for CuPy

    return nccl


def connections_module():
    from refimpl.transport.device import connections

    return connections


def test_a_rank_that_does_not_come_is_named(comm, cupy, nccl):
    communicator = _comm(comm, timeout=0.3)
    last = comm.size - 1
    if comm.rank < last:
        pending = communicator.start([], [(last, cupy.zeros(4), {"v": 4})], "push", "rows")
        with pytest.raises(SilentPeer, match=rf"rank {comm.rank} has waited 0.3 s for rank {last} in push \(rows\)"):
            communicator.settle()
        with pytest.raises(ConnectionError, match="NCCL was closed on this rank"):
            communicator.start([], [(last, cupy.zeros(4), {"v": 4})], "push", "rows")
        del pending
    comm.Barrier()


def test_what_nccl_meets_is_told_with_the_remedy_and_ends_all_ranks(comm, cupy, nccl):
    communicator = _comm(comm, timeout=20.0)
    if comm.rank == 0:
        nccl.fail(6)
        pending = communicator.start([], [(1, cupy.zeros(4), {"v": 4})], "push", "rows")
        words = r"push \(rows\) by NCCL.*remote process exited.*NCCL_DEBUG=INFO"
        with pytest.raises(ConnectionError, match=words) as met:
            communicator.settle()
        with pytest.raises(CollectiveError):
            communicator.stop(met.value)
    else:
        pending = communicator.start([], [(0, cupy.zeros(4), {"v": 4})], "push", "rows")
        with pytest.raises(CollectiveError, match=r"rank 0: push \(rows\) by NCCL"):
            communicator.settle()
    del pending
    comm.Barrier()


def test_a_status_that_cupy_has_no_words_for_is_told_all_the_same(comm, cupy, nccl):
    with pytest.raises(ConnectionError, match="the moon by NCCL: NCCL's status 8, see ncclResult_t.*NCCL_DEBUG=INFO"):
        with nccl_module().nccl_errors("the moon"):
            raise nccl.NcclError(8)


def test_a_rank_that_cannot_be_connected_is_named_on_all(comm, cupy, nccl, monkeypatch):
    def refuse(*_):
        raise nccl.NcclError(1)

    monkeypatch.setattr(connections_module(), "take_again", lambda *_: ("", None, None))
    if comm.rank == 1:
        monkeypatch.setattr(nccl, "NcclCommunicator", refuse)
    communicator = Communicator.of(comm, timeout=20.0)
    with pytest.raises(CollectiveError, match="rank 1: the connection of all ranks by NCCL.*--transport staged"):
        communicator.add_device(0, "nccl")
    comm.Barrier()


def test_a_rank_that_never_connects_is_an_error_and_no_hang(comm, cupy, nccl, monkeypatch):
    held = threading.Event()
    monkeypatch.setattr(connections_module(), "take_again", lambda *_: ("", None, None))
    if comm.rank == 0:
        monkeypatch.setattr(nccl, "NcclCommunicator", lambda *_: held.wait())
    private = comm.Dup()  # messages may stay under way
    with pytest.raises((SilentPeer, Aborted), match="has waited 0.3 s for .* in the connection of all ranks by NCCL"):
        Communicator.of(private, timeout=0.3).add_device(0, "nccl")
    held.set()
    comm.Barrier()


def test_an_nccl_that_moves_data_wrongly_is_found_before_it_is_used(comm, cupy, nccl, monkeypatch):
    arrive = nccl._Receive._arrive

    def wrongly(work, status):
        arrive(work, status)
        work.memory[:] += 1

    monkeypatch.setattr(nccl._Receive, "_arrive", wrongly)
    with pytest.raises(CollectiveError, match="rank 0: NCCL's first message of rank 1 says .*moves data wrongly"):
        Communicator.of(comm).add_device(0, "nccl")


def test_sums_that_nccl_has_not_are_known(comm, cupy):
    communicator = _comm(comm)
    adds = {name: communicator.device_transport.adds(np.dtype(name))
            for name in ("float32", "float64", "int64", "uint8", "complex64")}
    assert list(adds.values()) == [True, True, True, False, False]
