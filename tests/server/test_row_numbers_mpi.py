"""Lists of row numbers between ranks: in one message, or two where they are long; every byte counted."""

import numpy as np
import pytest

from refimpl.server.row_numbers import HEAD, begin_row_numbers
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks
from refimpl.transport.packed import Taken

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]


def list_for(source, target, number):
    """The number-th list from a rank to another: lengths around HEAD, and far beyond it, ids above 2^31."""
    size = [0, 5, HEAD - 3 - 2 * number, HEAD + 1, 3 * HEAD][(source + 2 * target + number) % 5]
    return np.arange(size) * 7 + 2**33 + source * 2**40 + target


def test_lists_of_any_length_arrive(comm):
    communicator = Communicator(comm, in_blocks(comm.size, 2))
    others = [r for r in range(comm.size) if r != comm.rank]
    outgoing = {r: [(name, list_for(comm.rank, r, number)) for number, name in enumerate("uv")] for r in others}
    came, _ = begin_row_numbers(communicator, outgoing, {r: ["u", "v"] for r in others}, "p")()
    assert list(came) == others
    for source, lists in came.items():
        assert all((one == list_for(source, comm.rank, number)).all() for number, one in enumerate(lists))
    sent = {r: [numbers for _, numbers in lists] for r, lists in outgoing.items()}
    for direction, everyone in (("sent", sent), ("received", came)):
        assert communicator.ledger.total(direction, kind="control") == 8 * 2 * len(others)
        for place, name in enumerate("uv"):
            numbers = sum(len(lists[place]) for lists in everyone.values())
            assert communicator.ledger.total(direction, kind="indices", variable=name) == 8 * numbers
        inside = sum(len(one) for r, lists in everyone.items() if r in communicator.machine for one in lists)
        whole = communicator.ledger.total(direction, kind="indices")
        assert communicator.ledger.total(f"crossed_{direction}", kind="indices") == whole - 8 * inside


def test_many_lists_are_told_in_one_message_and_none_in_no_message(comm):
    """More lengths than a first message holds by itself: it is as long as they are. Rank 0 has no list for anyone."""
    communicator, count = Communicator.of(comm), HEAD + 7
    after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    outgoing = {after: [("u", np.arange(i % 2) + comm.rank) for i in range(count)] if comm.rank else []}
    incoming = {before: ["u"] * count if before else []}
    came, _ = begin_row_numbers(communicator, *(({}, {}) if comm.size == 1 else (outgoing, incoming)), "p")()
    for lists in came.values():
        assert [one.tolist() for one in lists] == ([[before] * (i % 2) for i in range(count)] if before else [])
    assert bool(communicator.ledger.sent) == (comm.size > 1 and comm.rank > 0)


@pytest.mark.parametrize("rows, along", [(0, True), (5, True), (HEAD // 4, False), (2 * HEAD, False)])
def test_few_rows_travel_with_their_numbers(comm, rows, along):
    """Float32 rows of 3 behind numbers of 8 bytes. Rows that do not fit stay with the caller."""
    communicator = Communicator.of(comm, 30.0)
    others = [r for r in range(comm.size) if r != comm.rank]
    table = np.float32(np.arange(9 * HEAD).reshape(-1, 3))
    gradients = {r: [Taken(table, np.arange(rows)), table[:rows] + comm.rank] for r in others}
    lists, came = begin_row_numbers(
        communicator, {r: [(name, np.arange(rows)) for name in "uv"] for r in others},
        {r: ["u", "v"] for r in others}, "p", gradients, lambda name, k: np.empty((k, 3), np.float32))()
    assert sorted(gradients) == ([] if along else others) and sorted(came) == (others if along else [])
    for source, (first, second) in came.items():
        assert (first == table[:rows]).all() and (second == table[:rows] + source).all()
    assert all((one == np.arange(rows)).all() for some in lists.values() for one in some)
    for direction in ("sent", "received"):
        assert communicator.ledger.total(direction, kind="rows") == (12 * rows * 2 * len(others) if along else 0)
