"""Messages for ranks that can no longer agree: an abort message says why a rank stops; a roll call finds missing ranks.

A rank that waits in any exchange looks for these messages. So one rank's error ends all ranks at once, and so does a
rank whose program ends before those of the others.
"""

import time

import numpy as np
from mpi4py import MPI

from refimpl.transport.errors import Aborted
from refimpl.words import ranks_named

TAG = 32767  # the largest that every MPI must have; no other message has it, or one of these tags:
CALL, HERE, PARTING, ENDED = 32766, 32765, 32764, 32762
ROLL_CALL_SECONDS = 1.0  # a waiting rank looks for messages far more often
_NOTHING = np.empty(0, np.uint8)


class AbortMessages:
    """The abort messages and roll calls of one communicator's ranks. Local: no call waits for another rank.

    mpi: mpi4py's communicator.
    begun, what: how many collectives of all ranks of the job this rank has begun; the last one, for messages.
    ended: rank whose program has ended -> how many it had begun.
    """

    begun, what, ended = 0, "", {}

    def __init__(self, mpi):
        self.mpi, self._under_way = mpi, []
        self.sent: tuple[str, int] | None = None

    def send(self, text: str, signal: int = 0):
        """Tell every other rank why this one stops, without waiting. Only the first call sends anything. Local."""
        if self.sent is not None:
            return
        self.sent = text, signal
        self._tell(np.frombuffer(bytes([signal]) + text.encode(), np.uint8), TAG)

    def begin(self, what: str):
        """Count a collective of all ranks of the job. Local."""
        if self.mpi == MPI.COMM_WORLD:
            AbortMessages.begun, AbortMessages.what = self.begun + 1, what

    def end(self, seconds: float):
        """Tell all ranks of the job that this one's program has ended; take their words, for at most ``seconds``.

        It also takes what else has come: MPI warns of messages that nobody has taken, or does not end at all where
        ranks are on several machines; MPICH's MPI_Finalize fails, and the job's status is 9, or 0 after an error.
        """
        self._silent(ENDED, ENDED, seconds, words=np.array([self.begun]), known=self.ended)
        for _ in self._come(MPI.ANY_TAG):
            pass

    def check(self):
        """Answer roll calls; raise Aborted if this rank has received or sent an abort message. Local.

        It also raises Aborted if a rank has ended before a collective that this one has begun. A waiting rank calls
        this from time to time.
        """
        for caller, _ in self._come(CALL):
            self._under_way.append((_NOTHING, [self.mpi.Isend(_NOTHING, caller, HERE)]))
        if self.sent is not None:
            raise Aborted(*self.sent)
        for _, words in self._come(TAG):
            raise Aborted(words[1:].tobytes().decode(), int(words[0]))
        self.ended.update((rank, int(words.view(np.int64)[0])) for rank, words in self._come(ENDED))
        if gone := sorted(rank for rank, begun in self.ended.items() if begun < self.begun):
            raise Aborted(f"the program of {ranks_named(gone)} has ended, and the "
                          f"other ranks go on with {self.what}. Every rank must make the same calls and stop after the "
                          "same step: decide it by numbers that all ranks have, such as the loss")

    def absent(self) -> list[int]:
        """Call the roll; return the ranks that do not answer within a second. Local.

        Every waiting rank answers. Meanwhile this rank answers others' calls, and raises Aborted as ``check`` does.
        """
        return sorted(self._silent(CALL, HERE, ROLL_CALL_SECONDS, self.check))

    def part(self, seconds: float) -> bool:
        """Tell all other ranks that this rank sends nothing more; return whether all say so within ``seconds``.

        Collective over the ranks that are still alive.
        """
        return not self._silent(PARTING, PARTING, seconds)

    def _silent(self, tag, answer, seconds, meanwhile=lambda: None, words=_NOTHING, known=()):
        """Send every other rank a message; return those whose ``answer`` has not come, now or before (known)."""
        silent, end = self._tell(words, tag), time.monotonic() + seconds
        while (silent := silent.difference(known)) and time.monotonic() < end:
            meanwhile()
            silent -= {sender for sender, _ in self._come(answer)}
            time.sleep(1e-3)
        return silent

    def _tell(self, words, tag) -> set[int]:
        """Send every other rank an array, without waiting; return these ranks."""
        others = set(range(self.mpi.Get_size())) - {self.mpi.Get_rank()}
        self._under_way.append((words, [self.mpi.Isend(words, rank, tag) for rank in others]))
        return others

    def _come(self, tag):
        """Take the messages with ``tag`` that have come; yield each as (its sender, (bytes,) uint8)."""
        status = MPI.Status()
        while (message := self.mpi.Improbe(MPI.ANY_SOURCE, tag, status)) is not None:  # no other thread takes it
            words = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            message.Recv(words)
            yield status.Get_source(), words
