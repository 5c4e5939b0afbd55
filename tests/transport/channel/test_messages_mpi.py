"""Exchanges over a tensor channel: what arrives, in which order, the bytes, the choice of a way, what is refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.channel import choice
from refimpl.transport.channel.choice import WAYS, over_channel
from refimpl.transport.channel.messages import SLOT, ChannelMessages
from refimpl.transport.packed import Taken, groups

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(3)]
LONG = 9 * max(SLOT.values())


def sizes_of(way):
    """Bytes of messages: none, few, a slot's and about as many, several slots'."""
    slot = SLOT[way]
    return 0, 1, 100, slot - 1, slot, slot + 1, 5 * slot, 3 * slot + 7


def moved(transport, sizes):
    """Return the bytes that slots move, by the formulas of ``messages``. sizes: of tensors."""
    way, slot, beside = transport.name, SLOT[transport.name], 8 if transport.name == "landing" else 24
    long = {"landing": lambda n: 0, "rma": lambda n: n + beside * -(-n // slot),
            "shared": lambda n: n + 8 + beside if transport.pids else 0}[way]
    return sum(n + beside if n <= slot else long(n) for n in sizes)


@pytest.fixture(params=WAYS)
def opened(comm, request):
    communicator = Communicator.of(comm, 30.0)
    with over_channel(communicator, request.param):
        yield communicator


def around(comm):
    return (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size


@pytest.mark.parametrize("packed", [False, True])
def test_messages_of_any_length_arrive_in_order_with_bytes_by_formula(opened, packed):
    (right, left), transport = around(opened), opened.host_transport
    sizes = sizes_of(transport.name)
    out = [np.full(n, 10 * opened.rank + k, np.uint8) for k, n in enumerate(sizes)]
    into = [np.zeros(n, np.uint8) for n in sizes]
    transport.start([(right, a) for a in out], [(left, a) for a in into], "a test", packed).wait()
    for k, (array, n) in enumerate(zip(into, sizes)):
        assert (array == 10 * left + k).all() and len(array) == n
    tensors = ([sum(map(len, parts)) for _, parts in groups([(right, a) for a in out])] if packed else
               [n for n in sizes if n <= SLOT[transport.name]])
    opened.meet()
    sent = int(opened.gather_numbers([sum(transport.channel.sent.values())], "bytes").sum())
    assert sent == opened.size * moved(transport, tensors)


def test_only_small_arrays_that_lie_elsewhere_are_copied(opened):
    """Rows are taken in the slot; long arrays are sent from where they lie, by rma all single arrays."""
    (right, left), transport = around(opened), opened.host_transport
    table, ids = np.arange(60.0).reshape(20, 3) + 100 * opened.rank, np.array([19, 0, 7, 7])
    theirs = table + 100 * (left - opened.rank)
    for sends, expected, copied in (
            ([Taken(table, ids)], [theirs[ids]], 0),
            ([table, Taken(table, ids), ids], [theirs, theirs[ids], ids], 2),
            ([table], [theirs], int(transport.name != "rma")),
            ([Taken(table, np.arange(20).repeat(300))], [theirs.repeat(300, axis=0)], 0),
            ([np.full(LONG, opened.rank, np.uint8)], [np.full(LONG, left, np.uint8)], 0)):
        into, before = [np.empty_like(array) for array in expected], transport.copied
        opened.exchange([(right, a, {}) for a in sends], [(left, a, {}) for a in into], "a test", "rows")
        assert all((a == b).all() for a, b in zip(into, expected)) and transport.copied - before == copied
    with pytest.raises(IndexError, match="ids reach from -1 to 3, the table has 20 rows"):
        Taken(table, np.array([3, -1]))


def test_several_arrays_may_leave_as_one_message(opened):
    right, left = around(opened)
    into = np.full(9, -1)
    opened.post([(right, [np.arange(3), np.arange(0), np.array([opened.rank])])], [(left, into)], "a test").wait()
    assert into.tolist() == [0, 1, 2, left] + [-1] * 5


def test_what_comes_may_be_shorter_than_its_array(opened):
    right, left = around(opened)
    into = np.zeros(1000, np.int64)
    opened.post([(right, np.arange(3))], [(left, into)], "a test").wait()
    assert into[:4].tolist() == [0, 1, 2, 0]


def test_messages_go_on_while_their_ranks_wait_for_others(opened):
    """No rank looks after its long message until all have met, and then after the later one first."""
    right, left = around(opened)
    out, into = [np.full(LONG, k + opened.rank, np.uint8) for k in range(2)], np.zeros((2, LONG), np.uint8)
    pending = [opened.host_transport.start([(right, out[k])], [(left, into[k])], "a test", True) for k in range(2)]
    if opened.rank == 0:
        pending[1].wait()
    opened.meet()
    for one in reversed(pending):
        one.wait()
    assert (into[0] == left).all() and (into[1] == left + 1).all()


def test_ranks_of_other_machines_stay_with_mpi(comm):
    apart = Communicator(comm, ((0, 1), *((rank,) for rank in range(2, comm.size))), 30.0)
    with over_channel(apart, "shared"):
        assert set(apart.host_transport.out) == ({0, 1} - {apart.rank} if apart.rank < 2 else set())
        everyone = apart.share(np.array([apart.rank]), "a test")
    assert everyone[:, 0].tolist() == list(range(apart.size))


def test_auto_measures_and_says_why(comm):
    communicator, said = Communicator.of(comm, 30.0), []
    before = communicator.host_transport
    with over_channel(communicator, "auto", said.append):
        chosen = communicator.host_transport
    assert communicator.host_transport is before and communicator.waiter.beside is None
    (line,) = said if comm.rank == 0 else [""]
    assert comm.bcast(getattr(chosen, "name", ""), 0) == chosen.name
    if comm.rank == 0:
        name = chosen.name if isinstance(chosen, ChannelMessages) else "none"
        assert line.startswith(f"channel {name} is as fast to a neighbour as any, within 10%: us for 32,776 bytes: MPI ")
        assert all(way in line for way in WAYS)


@pytest.mark.parametrize("times, chosen", [
    ([1.09, 1.05, 1.0, 3.0], "none"), ([1.2, 1.09, 1.0, 3.0], "shared"), ([1.2, 1.2, 1.0, 0.99], "landing"),
    ([1.2, 1.2, 1.0, 0.5], "rma")])
def test_auto_takes_the_first_of_those_that_are_near_the_fastest(comm, monkeypatch, times, chosen):
    monkeypatch.setattr(choice, "_seconds", lambda _, ways: dict(zip(ways, times)))
    communicator, said = Communicator.of(comm, 30.0), []
    before = communicator.host_transport
    with over_channel(communicator, "auto", said.append):
        found = communicator.host_transport
    assert (found is before) if chosen == "none" else (found.name == chosen)
    assert comm.rank or said[0].startswith(f"channel {chosen} ")


def test_a_trial_takes_turns_and_leaves_out_what_disturbs_most_of_them(comm, monkeypatch):
    """Four turns in five of each way take a second more."""
    clock, order = [0.0], []

    class Transport:
        def __init__(self, name, seconds):
            self.name, self.seconds, self.starts = name, seconds, 0

        def start(self, *_):
            order.append(self.name)
            clock[0] += self.seconds + (self.starts // 2 % 5 != 0)
            self.starts += 1
            return self

        def wait(self):
            pass

    monkeypatch.setattr(choice, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    found = choice._seconds(Communicator.of(comm, 30.0), {"a": Transport("a", 0.25), "b": Transport("b", 0.125)})
    assert found == {"a": 0.5, "b": 0.25} and "".join(order[:8]) == "aabbaabb"


def test_what_cannot_be_is_refused_on_all_ranks(comm):
    communicator = Communicator.of(comm)
    with pytest.raises(CollectiveError, match="ask for different channels: shared on rank 0, none on rank 1"):
        with over_channel(communicator, "none" if comm.rank else "shared"):
            pass
    apart = Communicator(comm, tuple((rank,) for rank in range(comm.size)))
    with pytest.raises(CollectiveError, match="each rank has a machine of its own: take landing or rma"):
        with over_channel(apart, "shared"):
            pass
