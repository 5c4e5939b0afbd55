"""What ranks tell each other where nobody can agree on anything: why one stops; in a roll call, who still waits."""

import time

import numpy as np
from mpi4py import MPI

from refimpl.transport.waiting import CollectiveError

TAG = 32767  # the largest that every MPI must have; no other message bears it or those of a roll call:
CALL, HERE = 32766, 32765
ROLL_CALL_SECONDS = 1.0  # far longer than a rank that waits sleeps between two looks
_NOTHING = np.empty(0, np.uint8)


class Stopped(CollectiveError):
    """A rank cannot go on in the middle of an exchange; raised with its words by whoever waits for it, and by itself.

    Messages stay under way: nothing more can be done over this communicator.
    """


class Notices:
    """What the ranks of a communicator have to tell each other in such a case. Local."""

    def __init__(self, mpi):
        self.mpi, self.said, self.under_way = mpi, None, []

    def tell(self, text: str):
        """Send every other rank a text; do not wait until they have read it."""
        words = np.frombuffer(text.encode(), np.uint8)
        self.said = text
        others = (rank for rank in range(self.mpi.Get_size()) if rank != self.mpi.Get_rank())
        self.under_way.append((words, [self.mpi.Isend(words, rank, TAG) for rank in others]))

    def heed(self):
        """Answer a roll call; raise Stopped, with its words, if a notice has come from another rank, or left from this.

        To be called now and then by who waits.
        """
        for caller in self._empty(CALL):
            self.under_way.append((_NOTHING, [self.mpi.Isend(_NOTHING, caller, HERE)]))
        if self.said is not None:
            raise Stopped(self.said)
        status = MPI.Status()
        notice = self.mpi.Improbe(MPI.ANY_SOURCE, TAG, status)  # it is this thread's: another may look, too
        if notice is not None:
            words = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            notice.Recv(words)
            raise Stopped(words.tobytes().decode())

    def absent(self) -> list[int]:
        """Return the ranks that do not answer this one's roll call; whoever waits for a message does. Local."""
        silent = set(range(self.mpi.Get_size())) - {self.mpi.Get_rank()}
        self.under_way.append((_NOTHING, [self.mpi.Isend(_NOTHING, rank, CALL) for rank in silent]))
        end = time.monotonic() + ROLL_CALL_SECONDS
        while silent and time.monotonic() < end:
            self.heed()
            silent -= set(self._empty(HERE))
            time.sleep(1e-3)
        return sorted(silent)

    def _empty(self, tag):
        """Yield the rank that sent it, for each empty message with ``tag`` that has come."""
        status = MPI.Status()
        while (message := self.mpi.Improbe(MPI.ANY_SOURCE, tag, status)) is not None:
            message.Recv(_NOTHING)
            yield status.Get_source()
