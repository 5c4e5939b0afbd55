"""Messages for ranks that can no longer agree: an abort message says why a rank stops, a roll call finds missing ranks.

An abort message reaches a rank in every exchange in which it may wait. So one rank's error ends all ranks at once.
"""

import time

import numpy as np
from mpi4py import MPI

from refimpl.transport.errors import Aborted

TAG = 32767  # the largest that every MPI must have; no other message bears it or those of a roll call:
CALL, HERE, PARTING = 32766, 32765, 32764
ROLL_CALL_SECONDS = 1.0  # far longer than a rank that waits sleeps between two looks
_NOTHING = np.empty(0, np.uint8)


class AbortMessages:
    """The abort messages and roll calls of one communicator's ranks. Local: no call waits for another rank.

    mpi: mpi4py's communicator.
    """

    def __init__(self, mpi):
        self.mpi, self._under_way = mpi, []
        self.sent: tuple[str, int] | None = None

    def send(self, text: str, signal: int = 0):
        """Tell every other rank why this one stops; do not wait until they have read it. Local; the first word counts.
        """
        if self.sent is not None:
            return
        words = np.frombuffer(bytes([signal]) + text.encode(), np.uint8)
        self.sent = text, signal
        others = (rank for rank in range(self.mpi.Get_size()) if rank != self.mpi.Get_rank())
        self._under_way.append((words, [self.mpi.Isend(words, rank, TAG) for rank in others]))

    def check(self):
        """Answer roll calls; raise Aborted if an abort message has come, or has left this rank. Local.

        A rank that waits calls this now and then.
        """
        for caller in self._senders(CALL):
            self._under_way.append((_NOTHING, [self.mpi.Isend(_NOTHING, caller, HERE)]))
        if self.sent is not None:
            raise Aborted(*self.sent)
        status = MPI.Status()
        message = self.mpi.Improbe(MPI.ANY_SOURCE, TAG, status)  # it is this thread's: another may look, too
        if message is not None:
            words = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            message.Recv(words)
            raise Aborted(words[1:].tobytes().decode(), int(words[0]))

    def absent(self) -> list[int]:
        """Call the roll: return the ranks that do not answer within a second. Local.

        Every rank that waits answers. This one answers others' calls meanwhile, and raises Aborted as ``check`` does.
        """
        return sorted(self._silent(CALL, HERE, ROLL_CALL_SECONDS, self.check))

    def part(self, seconds: float) -> bool:
        """Tell all other ranks that this rank sends nothing more; return whether all say the same within ``seconds``.

        Collective, as far as ranks are there.
        """
        return not self._silent(PARTING, PARTING, seconds)

    def _silent(self, tag, answer, seconds, meanwhile=lambda: None):
        """Send every other rank an empty message; return those whose ``answer`` has not come after ``seconds``."""
        silent = set(range(self.mpi.Get_size())) - {self.mpi.Get_rank()}
        self._under_way.append((_NOTHING, [self.mpi.Isend(_NOTHING, rank, tag) for rank in silent]))
        end = time.monotonic() + seconds
        while silent and time.monotonic() < end:
            meanwhile()
            silent -= set(self._senders(answer))
            time.sleep(1e-3)
        return silent

    def _senders(self, tag):
        """Take the empty messages with ``tag`` that have come; yield the sender of each."""
        status = MPI.Status()
        while (message := self.mpi.Improbe(MPI.ANY_SOURCE, tag, status)) is not None:
            message.Recv(_NOTHING)
            yield status.Get_source()
