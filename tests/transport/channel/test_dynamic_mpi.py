"""Dynamic slots: tensors of any dtype and shape, bytes by formula and as plainly, and what is refused."""

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.plain.channel import Channel as PlainChannel
from refimpl.plain.channel import Slot
from refimpl.transport import Aborted, CollectiveError, Communicator
from refimpl.transport.channel.choice import WAYS
from refimpl.transport.channel.dynamic import described, place_dtype_shape
from refimpl.transport.channel.rma import RmaChannel
from refimpl.transport.channel.slots import TensorSlot

pytestmark = [pytest.mark.mpi(min_size=2), pytest.mark.ranks(2)]


def tensors(rank):
    rng = np.random.default_rng(rank)
    return [rng.normal(size=3), rng.integers(0, 9, (5, 2)), np.float32(rng.normal(size=(2, 3, 4, 5))),
            np.array(7.5 + rank), np.zeros((0, 3)), rng.normal(size=(301, 7)), rng.normal(size=(2, 2)).T,
            np.arange(1000, dtype=np.uint8)]


@pytest.fixture(params=WAYS)
def opened(comm, request):
    communicator = Communicator.of(comm, 20.0)
    slots = [TensorSlot.for_any(f"of {rank}", rank, (rank + 1) % comm.size) for rank in range(comm.size)]
    channel = WAYS[request.param].open(communicator, slots)
    yield channel
    channel.close()


def test_tensors_of_any_shape_are_fetched_with_bytes_by_formula(comm, opened):
    left = (comm.rank - 1) % comm.size
    for sent, expected in zip(tensors(comm.rank), tensors(left)):
        opened.put_signal(f"of {comm.rank}", sent)
        sent[...] = 0  # what was put may be written again
        found = opened.wait_signal(f"of {left}")
        assert found.dtype == expected.dtype and found.shape == expected.shape and (found == expected).all()
        opened.release(f"of {left}")
    beside = 16 if opened.way == "landing" else 32
    everyone = sum(sum(sent.values()) for sent in comm.allgather(opened.sent))
    assert everyone == comm.size * sum(a.nbytes + beside + 8 * a.ndim for a in tensors(0))


def test_bytes_are_those_of_the_plain_channel(comm):
    plain = PlainChannel(comm, [Slot("x", 0, 1, 4096, dynamic=True)])
    fast = RmaChannel.open(Communicator.of(comm, 20.0), [TensorSlot.for_any("x", 0, 1)])
    for channel in (plain, fast):
        for _ in range(2):
            if comm.rank == 0:
                channel.put_signal("x", np.ones((4, 3)))
            if comm.rank == 1:
                assert channel.wait_signal("x").sum() == 12
                channel.release("x")
    assert [sum(sent.values()) for sent in comm.allgather(plain.sent)] == [
        sum(sent.values()) for sent in comm.allgather(fast.sent)]
    plain.close()
    fast.close()


def test_a_description_says_all():
    array = np.zeros((3, 0, 5), np.float32)
    assert place_dtype_shape(described(array, (1 << 48) + 5)) == ((1 << 48) + 5, np.dtype("float32"), (3, 0, 5))


@pytest.mark.parametrize("tensor", [np.zeros((1,) * 5), np.zeros(2, np.complex128)], ids=["five sizes", "complex"])
def test_what_cannot_be_described_stops_all_ranks(comm, tensor):
    communicator = Communicator.of(comm, 20.0)
    with pytest.raises(Aborted, match="rank 0: slot x: a dynamic slot takes up to 4 sizes and one of float32, .* is "):
        channel = WAYS["landing"].open(communicator, [TensorSlot.for_any("x", 0, 1)])
        if comm.rank == 0:
            channel.put_signal("x", tensor)
        while True:
            communicator.waiter.abort_messages.check()


def test_an_mpi_without_dynamic_windows_is_refused(comm, monkeypatch):
    def lacking(*_, **__):
        raise NotImplementedError("none here")

    monkeypatch.setattr("refimpl.transport.channel.dynamic.MPI", type("Lacking", (), {
        "Exception": MPI.Exception, "Win": type("Win", (), {"Create_dynamic": lacking})}))
    with pytest.raises(CollectiveError, match=r"this MPI cannot make a dynamic window \(none here\): take landing or"):
        RmaChannel.open(Communicator.of(comm), [TensorSlot.for_any("x", 0, 1)])
