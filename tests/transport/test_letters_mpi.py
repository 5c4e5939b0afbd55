"""Letters: what is sent comes, once, in the order of its sender, whatever its length; nobody waits for it."""

import numpy as np
import pytest

from refimpl.transport import Communicator
from refimpl.transport.letters import Letters

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3)]
LONG = 3_000_001


def contents(sender, number):
    """Arrays of several dtypes and odd sizes, and a long one now and then."""
    rng = np.random.default_rng([sender, number])
    return (np.array([sender, number]), rng.standard_normal(rng.integers(0, 7)).astype(np.float32),
            rng.integers(0, 9, (3, rng.integers(0, 3))), np.full((), sender + 0.5),
            rng.integers(0, 255, LONG if number % 4 == 1 else 5, np.uint8))


def read(letter):
    sender, number = letter.next(np.int64, (2,)).tolist()
    assert sender == letter.sender
    for expected in contents(sender, number)[1:]:
        found = letter.next(expected.dtype, expected.shape)
        assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    return number


def test_letters_come_once_and_in_order(comm):
    ranks = Communicator.of(comm)
    letters, count = Letters(ranks), 9
    came = {rank: [] for rank in range(comm.size)}
    for number in range(count):
        for rank in range(comm.size):
            letters.send(rank, *contents(comm.rank, number))
        if (letter := letters.take()) is not None:
            came[letter.sender].append(read(letter))
    while sum(map(len, came.values())) < count * comm.size:
        if (letter := letters.take()) is not None:
            came[letter.sender].append(read(letter))
    assert came == {rank: list(range(count)) for rank in range(comm.size)}
    assert letters.take() is None and letters.received.tolist() == letters.sent.tolist() == [count] * comm.size
    ranks.meet()
    assert letters.take() is None


def test_what_was_sent_may_be_written_at_once(comm):
    """And what has come may be kept: nobody writes to it."""
    ranks = Communicator.of(comm)
    letters, array = Letters(ranks), np.zeros(LONG, np.uint8)
    for rank in range(comm.size):
        array[:] = comm.rank + 1
        letters.send(rank, array)
        array[:] = 0
    kept = []
    while len(kept) < comm.size:
        if (letter := letters.take()) is not None:
            kept.append((letter.sender, letter.next(np.uint8, (LONG,))))
    assert all((content == sender + 1).all() for sender, content in kept)
    ranks.meet()
