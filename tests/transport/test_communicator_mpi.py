"""The communicator by itself: messages under way, sums through one rank a machine, what crosses between machines."""

import gc
import time
import weakref

import numpy as np
import pytest

from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def machines_to_try(size):
    """One machine, one a rank, pairs, uneven ones, and machines whose ranks do not follow each other."""
    odd = tuple(m for m in (tuple(range(0, size, 2)), tuple(range(1, size, 2))) if m)
    return [in_blocks(size, size), in_blocks(size, 1), in_blocks(size, 2), in_blocks(size, 3), odd]


def test_a_total_adds_every_rank_once(comm):
    for machines in machines_to_try(comm.size):
        communicator = Communicator(comm, machines)
        mine = np.array([4**comm.rank, -(2**60) // comm.size, comm.rank == 0], np.int64)
        kept = mine.copy()
        total = communicator.total(mine, "sum")
        assert total.tolist() == [sum(4**r for r in range(comm.size)), comm.size * (-(2**60) // comm.size), 1]
        assert (mine == kept).all()
        machine = communicator.machine
        peers = len(machine) + len(machines) - 2 if comm.rank == machine[0] else 1
        ledger, key = communicator.ledger, ("sum", "", "control")
        assert ledger.sent[key] == ledger.received[key] == 24 * peers
        crossing = 24 * (len(machines) - 1) * (comm.rank == machine[0])
        assert ledger.total("crossed_sent") == ledger.total("crossed_received") == crossing


def test_numbers_of_every_rank_keep_their_kind(comm):
    communicator = Communicator.of(comm)
    whole = communicator.gather_numbers([communicator.rank, 2**62, True], "a test")
    assert whole.dtype == np.int64 and whole.tolist() == [[rank, 2**62, 1] for rank in range(comm.size)]
    parts = communicator.gather_numbers([communicator.rank / 3], "a test")
    assert parts.dtype == np.float64 and parts.tolist() == [[rank / 3] for rank in range(comm.size)]
    assert not communicator.ledger.sent


@pytest.mark.parametrize("each", [1, 2, 4])
def test_the_first_ranks_by_themselves(comm, each):
    communicator = Communicator(comm, in_blocks(comm.size, each), timeout=77)
    for count in range(1, comm.size + 1):
        some = communicator.first(count)
        assert (some is None) == (communicator.rank >= count)
        if some is not None:
            assert (some.rank, some.size, some.timeout) == (communicator.rank, count, 77)
            assert some.machines == in_blocks(count, each)
            assert some.share_text(str(some.rank)) == [str(rank) for rank in range(count)]
            some.free()
        communicator.meet()
    assert Communicator.alone().machines == ((0,),) and Communicator.alone().share_text("me") == ["me"]


@pytest.mark.mpi(min_size=2)
def test_a_rank_that_comes_while_the_roll_is_called_is_not_too_late(comm):
    communicator = Communicator.of(comm)
    communicator.timeout = 0.5
    if communicator.rank == 0:
        time.sleep(0.9)
    communicator.agree()


def test_all_ranks_hear_whether_their_numbers_are_alike(comm):
    communicator, last = Communicator.of(comm), comm.rank == comm.size - 1
    assert communicator.agree() and communicator.agree(None, [5, -1, 1 << 40])
    for change in (-1, 1):  # whichever number is the one that differs
        assert communicator.agree(None, [5, change * last]) is (comm.size == 1)
    with pytest.raises(CollectiveError, match="the cat$"):
        communicator.agree(ValueError("the cat") if last else None, [comm.rank])


def test_messages_under_way_arrive_in_order(comm):
    """Three exchanges are begun before the first is waited for; each pair's messages keep their order."""
    communicator = Communicator(comm, in_blocks(comm.size, 2))
    others = [r for r in range(comm.size) if r != comm.rank]
    begun, came = [], []
    for number in range(3):
        arrived = {r: np.empty(number, np.int64) for r in others}
        sends = [(r, np.full(number, 100 * number + comm.rank), {"v": number}) for r in others]
        begun.append(communicator.start(sends, [(r, a, {"v": number}) for r, a in arrived.items()], "p", "rows"))
        came.append(arrived)
    for number, (pending, arrived) in enumerate(zip(begun, came)):
        pending.wait()
        assert all((a == 100 * number + r).all() for r, a in arrived.items())
    assert communicator.ledger.sent["p", "v", "rows"] == 8 * 3 * len(others)
    strangers = [r for r in others if r // 2 != comm.rank // 2]
    for crossed in (communicator.ledger.crossed_sent, communicator.ledger.crossed_received):
        assert crossed["p", "v", "rows"] == 24 * len(strangers)


@pytest.mark.parametrize("repeated", [False, True])
def test_arrays_stay_until_their_messages_have_arrived(comm, repeated):
    """After an error nobody waits any more, but MPI still writes to the arrays of what was begun."""
    transport, peer = Communicator.of(comm).host_transport, comm.size - 1 - comm.rank
    if peer == comm.rank:
        return

    def begin():
        sent, came = np.full(100_000, comm.rank), np.empty(100_000, np.int64)
        if repeated:
            messages = transport.prepare([(peer, sent)], [(peer, came)], "p")
            messages.start()
        else:
            messages = transport.start([(peer, sent)], [(peer, came)], "p")
        return messages, [weakref.ref(array) for array in (sent, came)]

    messages, waited = begin()
    if repeated:
        transport.wait_some([messages])
        messages.free()
    else:
        messages.wait()
    del messages
    dropped = begin()[1]
    gc.collect()
    assert [ref() is None for ref in waited + dropped] == [True, True, False, False]


def test_small_arrays_of_a_pair_are_one_message(comm):
    """Of several kinds and sizes, and a large one between them: as many messages as must be, and all arrive."""
    communicator = Communicator.of(comm)
    others = [r for r in range(comm.size) if r != comm.rank]

    def arrays(source, target):
        return [np.full(n, source * 10 + target, dtype) for n, dtype in
                ((3, "f4"), (0, "f8"), (5, "i8"), (1 << 13, "f4"), (1, "u1"), (2, "f8"))]

    sends = [(r, a, {"v": a.size}) for i in range(6) for r in others for a in arrays(comm.rank, r)[i:i + 1]]
    came = {r: [np.empty_like(a) for a in arrays(r, comm.rank)] for r in others}
    pending = communicator.start(sends, [(r, a, {"v": a.size}) for r in others for a in came[r]], "p", "rows")
    assert len(pending.requests) == 2 * 3 * len(others)  # [3 f4, 5 i8], [2^13 f4], [1 u1, 2 f8]; there and back
    pending.wait()
    for r, found in came.items():
        assert all((a == b).all() for a, b in zip(found, arrays(r, comm.rank)))
    ledger = communicator.ledger
    assert ledger.total("sent") == ledger.total("received") == len(others) * (12 + 40 + (1 << 15) + 1 + 16)
