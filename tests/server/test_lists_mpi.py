"""Lists of row numbers between ranks: in one message, or two where they are long; every byte counted."""

import numpy as np
import pytest

from refimpl.server.lists import HEAD, RowList, exchange_lists
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = pytest.mark.mpi


def list_for(source, target, number):
    """The number-th list from a rank to another: lengths around HEAD, and far beyond it, ids above 2^31."""
    sizes = [0, 5, HEAD - 3 - 2 * number, HEAD + 1, 3 * HEAD][(source + 2 * target + number) % 5]
    bounds = np.array([0, sizes // 3, sizes], np.int64)
    return RowList("uv"[number], np.arange(sizes) * 7 + 2**33 + source * 2**40 + target, bounds)


def test_lists_of_any_length_arrive(comm):
    communicator = Communicator(comm, in_blocks(comm.size, 2))
    others = [r for r in range(comm.size) if r != comm.rank]
    outgoing = {r: [list_for(comm.rank, r, number) for number in range(2)] for r in others}
    came = exchange_lists(communicator, outgoing, {r: [("u", 2), ("v", 2)] for r in others}, "p")
    assert list(came) == others
    for source, lists in came.items():
        for number, one in enumerate(lists):
            wanted = list_for(source, comm.rank, number)
            assert one.variable == wanted.variable and (one.numbers == wanted.numbers).all()
            assert one.bounds.tolist() == wanted.bounds.tolist()
    for direction, everyone in (("sent", outgoing), ("received", came)):
        assert communicator.ledger.total(direction, kind="control") == 8 * 4 * len(others)
        for place, name in enumerate("uv"):
            numbers = sum(len(lists[place].numbers) for lists in everyone.values())
            assert communicator.ledger.total(direction, kind="indices", variable=name) == 8 * numbers
        inside = sum(len(one.numbers) for r, lists in everyone.items() if r in communicator.machine for one in lists)
        whole = communicator.ledger.total(direction, kind="indices")
        assert communicator.ledger.total(f"crossed_{direction}", kind="indices") == whole - 8 * inside


def test_many_pieces_are_told_in_one_message(comm):
    """More lengths than a first message holds by itself: it is as long as they are."""
    communicator, other = Communicator(comm), (comm.rank + 1) % comm.size
    before, pieces = (comm.rank - 1) % comm.size, HEAD + 7
    bounds = np.arange(pieces + 1, dtype=np.int64)
    outgoing = {other: [RowList("u", np.arange(pieces) + comm.rank, bounds)]} if comm.size > 1 else {}
    came = exchange_lists(communicator, outgoing, {before: [("u", pieces)]} if comm.size > 1 else {}, "p")
    for one, in came.values():
        assert (one.numbers == np.arange(pieces) + before).all() and (one.bounds == bounds).all()
