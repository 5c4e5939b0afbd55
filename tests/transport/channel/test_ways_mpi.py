"""The tensor channel's ways: whole tensors, no slot overwritten, bytes by formula, waits that end, mistakes caught."""

import sys
import time

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.transport import Aborted, CollectiveError, Communicator, SilentPeer
from refimpl.transport.channel.landing import AHEAD, LandingChannel
from refimpl.transport.channel.rma import RmaChannel
from refimpl.transport.channel.shared import SharedChannel
from refimpl.transport.channel.slots import LAST, Channel, TensorSlot

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
WAYS = (SharedChannel, LandingChannel, RmaChannel)


@pytest.fixture(params=WAYS, ids=lambda way: way.way)
def way(request):
    return request.param


@pytest.fixture
def ring(comm):
    """Return make(way, shape, timeout, first) -> a channel with a slot from each rank to its right neighbour.

    And the names of the slots in which this rank writes and reads.
    """
    made, size = [], comm.size

    def make(way, shape, timeout=20.0, first=0):
        communicator = Communicator.of(comm, timeout)
        slots = [TensorSlot(f"of {rank}", rank, (rank + 1) % size, "float64", shape) for rank in range(size)]
        made.append(way.open(communicator, slots, first))
        return made[-1], f"of {comm.rank}", f"of {(comm.rank - 1) % size}"

    yield make
    for channel in made:
        channel.comm.timeout = 20.0
        channel.close()


def sent_in_all(comm, channel):
    return sum(sum(sent.values()) for sent in comm.allgather(channel.sent))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [300, pytest.param(100_000, marks=pytest.mark.thorough)])
def test_tensors_are_never_torn(comm, ring, way, count):
    """Each word of a tensor is its sequence number."""
    channel, mine, left = ring(way, (300, 2))
    for number in range(count):
        channel.put_signal(mine, np.full((300, 2), float(number)))
        assert (channel.wait_signal(left) == number).all()
        channel.release(left)
    assert sent_in_all(comm, channel) == comm.size * count * (4800 + (8 if way is LandingChannel else 16))


def test_static_tensors_arrive_and_numbers_wrap(comm, ring, way):
    channel, mine, left = ring(way, (5,), first=LAST - 2)
    for number in range(6):
        channel.put_signal(mine, np.full(5, 10.0 * comm.rank + number))
        assert (channel.wait_signal(left) == 10.0 * ((comm.rank - 1) % comm.size) + number).all()
        channel.release(left)
    assert channel.counts[mine] == -LAST + 2
    assert sent_in_all(comm, channel) == comm.size * 6 * (40 + (8 if way is LandingChannel else 16))


def test_what_is_there_already_takes_few_python_frames(comm, ring):
    channel, mine, left = ring(SharedChannel, (1,))
    frames, tensor, note = [], np.ones(1), lambda frame, event, _: frames.append((event, frame.f_code.co_name))
    for turn in range(2):  # the first compiles
        comm.Barrier()
        sys.setprofile(note if turn else None)
        channel.put_signal(mine, tensor)
        channel.wait_signal(left)
        channel.release(left)
        sys.setprofile(None)
    assert [name for event, name in frames if event == "call"] == [
        "put_signal", "raise_flag", "wait_signal", "following", "wait_for_number", "release", "give_back", "raise_flag"]


def test_a_slow_reader_is_not_overwritten_and_its_writer_names_it(comm, ring, way):
    channel, mine, left = ring(way, (2,))
    channel.put_signal(mine, np.array([1.0, 2.0]))
    found = channel.wait_signal(left)
    comm.Barrier()
    channel.comm.timeout = 0.3
    with pytest.raises(SilentPeer, match=rf"^rank {comm.rank} has waited 0.3 s for rank {(comm.rank + 1) % comm.size} "
                                         rf"in slot {mine} \(to be read\)\."):
        for number in range(3, 4 + AHEAD):  # landing lets the writer be ahead
            channel.put_signal(mine, np.array([number, number], float))
    assert found.tolist() == [1.0, 2.0]
    comm.Barrier()
    channel.comm.timeout = 20.0
    channel.release(left)
    for number in range(3, 2 + AHEAD) if way is LandingChannel else ():
        assert channel.wait_signal(left).tolist() == [number, number]
        channel.release(left)


def test_a_reader_names_the_writer_that_is_missing(comm, ring, way):
    channel, _, left = ring(way, (1,), timeout=0.3)
    with pytest.raises(SilentPeer, match=rf"for rank {(comm.rank - 1) % comm.size} in slot {left} \(to be written\)"):
        channel.wait_signal(left)


@pytest.mark.thorough
def test_a_tensor_comes_after_five_idle_seconds(comm, ring, way):
    channel, mine, left = ring(way, (1,))
    for number in range(2):
        channel.put_signal(mine, np.array([float(number)]))
        assert channel.wait_signal(left) == [number]
        channel.release(left)
        time.sleep(5 * (1 - number))


@pytest.mark.parametrize("seconds", [0.5, pytest.param(2.0, marks=pytest.mark.thorough)])
def test_nobody_waits_for_a_reader_that_does_not_call_mpi(comm, ring, seconds):
    channel, mine, left = ring(SharedChannel, (1 << 17,))
    channel.put_signal(mine, np.zeros(1 << 17))  # what is compiled, is compiled now
    channel.wait_signal(left)
    channel.release(left)
    comm.Barrier()
    if comm.rank:
        time.sleep(seconds)
    begin = time.monotonic()
    channel.put_signal(mine, np.arange(float(1 << 17)))
    assert time.monotonic() - begin < seconds / 2
    assert channel.wait_signal(left)[-1] == (1 << 17) - 1
    channel.release(left)


class LateWindow:
    """A window in which puts come as late as MPI allows: when their target is flushed. All else comes at once."""

    def __init__(self, window):
        self.window, self.late = window, []

    def Put(self, array, rank, place):
        self.late.append((array.copy(), rank, place))

    def Flush(self, rank):
        for array, target, place in [late for late in self.late if late[1] == rank]:
            self.window.Put(array, target, place)
        self.late = [late for late in self.late if late[1] != rank]
        self.window.Flush(rank)

    def __getattr__(self, name):
        return getattr(self.window, name)


class Late(RmaChannel):
    def allocate(self, nbytes):
        return LateWindow(super().allocate(nbytes))


class NoFlush(Late):
    def flush(self, rank, name):
        self.window.window.Flush(rank)  # of the signal alone, which else would never be seen


class LocalFlushOnly(Late):
    def flush(self, rank, name):
        self.window.Flush_local(rank)
        self.window.window.Flush(rank)


def without_credit(way):
    return type("WithoutCredit", (way,), {"is_free": lambda self, name, number: True})


def with_a_number_used_twice(way):
    def write(self, name, array, number):
        way.write(self, name, array, 1)

    return type("UsedTwice", (way,), {"write": write, "put_signal": Channel.put_signal})


def pass_two(channel, mine, left):
    """Pass two tensors; return what the reader has of the first when the second has been written."""
    channel.put_signal(mine, np.full(4, 1.0))
    found = channel.wait_signal(left)
    channel.comm.meet()
    channel.comm.timeout = 1.0
    try:
        channel.put_signal(mine, np.full(4, 2.0))
    except SilentPeer:
        pass
    channel.comm.timeout = 20.0
    channel.comm.meet()
    return found.tolist()


def test_puts_may_come_late(ring):
    assert pass_two(*ring(Late, (4,))) == [1.0] * 4


@pytest.mark.parametrize("mistake",
                         [NoFlush, LocalFlushOnly, without_credit(SharedChannel), without_credit(RmaChannel)],
                         ids=["no flush", "local flush only", "no credit, shared", "no credit, rma"])
def test_a_tensor_that_is_not_whole_shows(ring, mistake):
    assert pass_two(*ring(mistake, (4,))) != [1.0] * 4


def two_of_one_number(way, communicator):
    """Have rank 0 write two tensors under one number; return the channel when rank 1 has read the first of them."""
    channel = with_a_number_used_twice(way).open(communicator, [TensorSlot("x", 0, 1, "float64", (1,))])
    if communicator.rank == 0:
        for _ in range(2):
            channel.put_signal("x", np.zeros(1))
    if communicator.rank == 1:
        channel.wait_signal("x")
        channel.release("x")
    return channel


@pytest.mark.parametrize("way", [SharedChannel, RmaChannel], ids=["shared", "rma"])
def test_a_number_used_twice_is_no_new_tensor(comm, way):
    channel = two_of_one_number(way, Communicator.of(comm, 0.5))
    if comm.rank == 1:
        with pytest.raises(SilentPeer, match="to be written"):
            channel.wait_signal("x")
    comm.Barrier()


def wait_for_abort(channel):
    """Raise what a rank hears that waits for others."""
    while True:
        channel.comm.waiter.abort_messages.check()
        time.sleep(0.01)


def test_a_number_used_twice_stops_all_ranks(comm):
    communicator = Communicator.of(comm)
    with pytest.raises(Aborted, match="rank 1: slot x got tensor 1 where 2 was due: a sequence number was used twice"):
        channel = two_of_one_number(LandingChannel, communicator)
        if comm.rank == 1:
            channel.wait_signal("x")
        wait_for_abort(channel)


@pytest.mark.parametrize("shape, dtype", [((3,), np.float64), ((2,), np.float32), ((2, 1), np.float64)])
def test_a_tensor_that_does_not_fit_stops_all_ranks(comm, way, shape, dtype):
    communicator = Communicator.of(comm, 20.0)
    with pytest.raises(Aborted, match=r"rank 0: slot x has room for \(2,\) float64; the tensor is"):
        channel = way.open(communicator, [TensorSlot("x", 0, 1, "float64", (2,))])
        if comm.rank == 0:
            channel.put_signal("x", np.zeros(shape, dtype))
        elif comm.rank == 1:
            channel.wait_signal("x")
        wait_for_abort(channel)


@pytest.mark.parametrize("slot, says", [
    (lambda rank: TensorSlot("x", 0, 1, "float64", (1 + rank,)), "not the same on ranks 0 and 1: give all ranks"),
    (lambda rank: TensorSlot("x", 1, 1, "float64", (1,)),
     "slot x goes from rank 1 to rank 1: it needs two of the ranks"),
    (lambda rank: TensorSlot("x", 0, 99, "float64", (1,)),
     "slot x goes from rank 0 to rank 99: it needs two of the ranks"),
])
def test_slots_that_cannot_be_are_refused_on_all_ranks(comm, way, slot, says):
    with pytest.raises(CollectiveError, match=says):
        way.open(Communicator.of(comm), [slot(comm.rank)])


def test_shared_refuses_another_machine(comm):
    apart = Communicator(comm, tuple((rank,) for rank in range(comm.size)))
    with pytest.raises(CollectiveError, match="on another machine: shared serves ranks of one machine; take landing"):
        SharedChannel.open(apart, [TensorSlot("x", 0, 1, "float64", (1,))])


def test_rma_refuses_an_mpi_that_cannot_allocate(comm, monkeypatch):
    class Lacking:
        Exception = MPI.Exception

        class Win:
            @staticmethod
            def Allocate(*_, **__):
                raise NotImplementedError("no windows")

    monkeypatch.setattr("refimpl.transport.channel.rma.MPI", Lacking)
    with pytest.raises(CollectiveError, match=r"this MPI cannot allocate a window of .* \(no windows\): take landing"):
        RmaChannel.open(Communicator.of(comm), [TensorSlot("x", 0, 1, "float64", (1,))])
