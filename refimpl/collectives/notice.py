"""A notice to all ranks: one that fails in the middle of an exchange, where nobody can agree on anything, says why."""

import numpy as np
from mpi4py import MPI

from refimpl.collectives.waiting import CollectiveError

TAG = 32767  # the largest that every MPI must have; no other message bears it


class Stopped(CollectiveError):
    """A rank cannot go on in the middle of an exchange; raised with its words by whoever waits for it, and by itself.

    Messages stay under way: nothing more can be done over this communicator.
    """


class Notices:
    """What the ranks of a communicator have to tell each other in such a case. Local."""

    def __init__(self, comm):
        self.comm, self.said, self.under_way = comm, None, []

    def tell(self, text: str):
        """Send every other rank a text; do not wait until they have read it."""
        words = np.frombuffer(text.encode(), np.uint8)
        self.said = text
        others = (rank for rank in range(self.comm.Get_size()) if rank != self.comm.Get_rank())
        self.under_way.append((words, [self.comm.Isend(words, rank, TAG) for rank in others]))

    def heed(self):
        """Raise Stopped, with its words, if a notice has come from another rank, or left from this one."""
        if self.said is not None:
            raise Stopped(self.said)
        status = MPI.Status()
        notice = self.comm.Improbe(MPI.ANY_SOURCE, TAG, status)  # it is this thread's: another may look, too
        if notice is not None:
            words = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            notice.Recv(words)
            raise Stopped(words.tobytes().decode())
