"""The plain tensor channel: whole tensors, none overwritten before it is read, bytes by formula, waits that end."""

import time

import numpy as np
import pytest

from refimpl.plain.collectives.channel import Channel, Slot

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]
KINDS = ("static", "dynamic")


@pytest.fixture
def ring(comm):
    """Return make(capacity, timeout) -> a channel in which each rank has slots to its right neighbour; closed after."""
    made = []

    def make(capacity, timeout=20.0):
        made.append(Channel(comm, [Slot(f"{kind} {r}", r, (r + 1) % comm.size, capacity, kind == "dynamic")
                                   for r in range(comm.size) for kind in KINDS], timeout))
        return made[-1]

    yield make
    for channel in made:
        channel.close()


def test_tensors_of_any_size_arrive_whole_and_bytes_follow_the_formula(comm, ring):
    """Every element of the i-th tensor of rank r is 1000 r + i: a tensor of two writings would show."""
    sizes = np.random.default_rng(7).integers(0, 500, 60)
    channel, left, expected = ring(4000), (comm.rank - 1) % comm.size, dict.fromkeys(KINDS, 0)
    for i, n in enumerate(sizes.tolist()):
        shape = (n, 1) if i % 2 else (n,)
        for kind in KINDS:
            channel.put_signal(f"{kind} {comm.rank}", np.full(shape, 1000.0 * comm.rank + i))
        for kind in KINDS:
            found = channel.wait_signal(f"{kind} {left}", "float64", shape)
            assert (found.dtype, found.shape) == (np.float64, shape) and (found == 1000.0 * left + i).all()
            channel.release(f"{kind} {left}")
        expected["static"] += 8 * n + 8 + 8
        expected["dynamic"] += 8 * n + 8 * len(shape) + 24 + 8
    for kind in KINDS:
        name = f"{kind} {comm.rank}"  # what both its ends have moved
        assert sum(sent[name] for sent in comm.allgather(channel.sent)) == expected[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_a_writer_waits_until_the_reader_has_given_the_slot_back(comm, ring, kind):
    channel, right, left = ring(16), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    channel.put_signal(f"{kind} {comm.rank}", np.array([1.0, 2.0]))
    found = channel.wait_signal(f"{kind} {left}", "float64", (2,))
    channel.timeout = 0.2
    with pytest.raises(TimeoutError, match=rf"^rank {comm.rank} waited 0.2 s for rank {right} to read slot {kind}"):
        channel.put_signal(f"{kind} {comm.rank}", np.array([3.0, 4.0]))
    assert found.tolist() == [1.0, 2.0]
    comm.Barrier()
    channel.timeout = 20.0
    channel.release(f"{kind} {left}")
    channel.put_signal(f"{kind} {comm.rank}", np.array([3.0, 4.0]))
    assert channel.wait_signal(f"{kind} {left}", "float64", (2,)).tolist() == [3.0, 4.0]
    comm.Barrier()


def test_a_reader_whose_writer_says_nothing_names_it(comm, ring):
    channel, left, begin = ring(8, timeout=0.2), (comm.rank - 1) % comm.size, time.monotonic()
    with pytest.raises(TimeoutError, match=f"waited 0.2 s for rank {left} to write slot static {left}"):
        channel.wait_signal(f"static {left}", "float64", (1,))
    assert time.monotonic() - begin < 60


def test_a_tensor_larger_than_its_slot_is_refused(comm, ring):
    with pytest.raises(ValueError, match="slot static 0 has 8 bytes; the tensor has 16"):
        ring(8).put_signal("static 0", np.zeros(2))
