"""Letters: messages that may come at any time, of a length that only the sender knows. For training without barriers.

A letter has some arrays, each at a multiple of 8 bytes. The reader knows their dtypes. It knows their shapes, too, or
has read them in earlier arrays.
"""

from collections import deque

import numpy as np
from mpi4py import MPI

TAG = 32763  # no other message has it; the next are those of abort messages and roll calls
EVERY = 8


class Letter:
    """A letter from ``sender``. Local."""

    def __init__(self, sender: int, content: np.ndarray):
        self.sender, self.content, self.read = sender, content, 0

    def next(self, dtype, shape=()):
        """Return the next array, a view of the letter's memory."""
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        array = self.content[self.read:self.read + size].view(dtype).reshape(shape)
        self.read += _whole(size)
        return array


class Letters:
    """Letters between the ranks of a communicator, and from a rank to itself. Local: no call waits for another rank.

    Letters of one pair of ranks keep their order. They are read in the order of their arrival.
    sent, received: the number of letters to and from each rank.
    """

    def __init__(self, comm):
        self.mpi, self.rank = comm.mpi, comm.rank
        self.own: deque[Letter] = deque()
        self.under_way: list[tuple] = []
        self.coming: list[tuple] = []  # long letters take time to arrive; meanwhile others are read
        self.sent, self.received = np.zeros(comm.size, np.int64), np.zeros(comm.size, np.int64)

    def send(self, rank: int, *arrays):
        """Send a copy of these arrays without waiting."""
        content = enclosed(arrays)
        self.sent[rank] += 1
        if rank == self.rank:
            self.own.append(Letter(rank, content))
            return
        self.under_way = [(kept, request) for kept, request in self.under_way if not request.Test()]
        self.under_way.append((content, self.mpi.Isend(content, rank, TAG)))

    def take(self) -> Letter | None:
        """Return a letter that has arrived; None if there is none."""
        letter = self.own.popleft() if self.own else self._from_others()
        if letter is not None:
            self.received[letter.sender] += 1
        return letter

    def _from_others(self):
        status = MPI.Status()
        while (message := self.mpi.Improbe(MPI.ANY_SOURCE, TAG, status)) is not None:
            content = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            self.coming.append((Letter(status.Get_source(), content), message.Irecv(content)))
        behind = set()
        for place, (letter, request) in enumerate(self.coming):
            if letter.sender not in behind and request.Test():
                del self.coming[place]
                return letter
            behind.add(letter.sender)
        return None


def enclosed(arrays) -> np.ndarray:
    """Return the content of a letter: (bytes,) uint8. Local."""
    content, first = np.empty(sum(_whole(array.nbytes) for array in arrays), np.uint8), 0
    for array in arrays:
        content[first:first + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        first += _whole(array.nbytes)
    return content


def _whole(size: int) -> int:
    return -(-size // EVERY) * EVERY
