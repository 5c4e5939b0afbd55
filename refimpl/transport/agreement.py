"""Let ranks continue together, or stop together with one message. A wait has a time-out, and names the missing ranks.

The plain version: ``refimpl.plain.training.agreement``.
"""

import os
from contextlib import contextmanager

import numpy as np
from mpi4py import MPI

from refimpl.transport.abort import AbortMessages
from refimpl.transport.errors import Aborted, CollectiveError, Interrupted, SilentPeer, interruption, words_of
from refimpl.transport.job.supervisor import TIMEOUT_SECONDS
from refimpl.transport.waiting import Waiter
from refimpl.words import ranks_named

AT_ONCE, ERROR = 1 << 8, 1 << 16
"""A rank's contribution to ``agree``: a signal's number, plus AT_ONCE if it must end at once; or ERROR."""


class Agreement:
    """The ranks of an MPI communicator: they agree, and share numbers and texts. The constructor is local.

    mpi: mpi4py's communicator.  timeout: seconds without any progress after which a rank no longer waits. All methods
    are collective unless they say Local. They raise SilentPeer, with the missing ranks, after the time-out, and Aborted
    after another rank's abort message. The ledger does not count their bytes.
    """

    def __init__(self, mpi, timeout: float = TIMEOUT_SECONDS):
        self.mpi, self.rank, self.size, self.process = mpi, mpi.Get_rank(), mpi.Get_size(), os.getpid()
        self.waiter = Waiter(self.rank, timeout, AbortMessages(mpi))

    @property
    def timeout(self) -> float:
        """The seconds that this rank waits for others without any progress. It may be set at any time. Local."""
        return self.waiter.timeout

    @timeout.setter
    def timeout(self, seconds: float):
        self.waiter.timeout = seconds

    def stay_one(self):
        """End this process if it is a child of a fork: a rank is one process. Called after a user's code. Local."""
        if os.getpid() != self.process:
            os.write(2, f"refimpl: error: rank {self.rank}: a child of os.fork() came back into the training, and was "
                        "ended: let it end itself by os._exit, or use subprocess\n".encode())
            os._exit(1)

    def meet(self, what: str = "a meeting of all ranks"):
        """Return when all ranks have called this. Collective. what: named in errors."""
        self.waiter.for_collective(self.mpi.Ibarrier(), what)

    def gather_numbers(self, numbers, what: str) -> np.ndarray:
        """Return (size, k) int64 or, of floats, float64: the k ``numbers`` of every rank, by rank. Collective.

        what: named in errors.
        """
        mine = np.array(numbers)
        mine = mine.astype(np.float64 if mine.dtype.kind == "f" else np.int64)
        everyone = np.empty((self.size, mine.size), mine.dtype)
        self.waiter.for_collective(self.mpi.Iallgather(mine, everyone), what)
        return everyone

    def share_text(self, text: str) -> list[str]:
        """Return every rank's text, by rank. Collective."""
        what, mine = "an exchange of texts", np.frombuffer(text.encode(), np.uint8)
        lengths = self.gather_numbers([mine.size], what)[:, 0]
        everything = np.empty(int(lengths.sum()), np.uint8)
        self.waiter.for_collective(self.mpi.Iallgatherv(mine, (everything, lengths)), what)
        ends = np.cumsum(lengths)
        return [everything[end - n:end].tobytes().decode() for n, end in zip(lengths, ends)]

    def agree(self, error: BaseException | None = None, alike=(),
              what: str = "the check that all ranks continue") -> bool:
        """Raise CollectiveError on every rank if any rank gives an error. Collective.

        Otherwise return whether all ranks give the same numbers ``alike``, integers, as many on each rank. what: named
        in errors. The message is the same on all ranks. It names each rank that gave an error, ranks with the same one
        together; on the first of these, and only there, the error is its cause (``__cause__``).
        After SilentPeer or Aborted ranks cannot agree. Then that error is raised again at once, on this rank alone.
        """
        if isinstance(error, (SilentPeer, Aborted)):
            raise error
        self.stay_one()
        error = interruption(error)
        mine = np.array([_weight(error), *alike, *(-number for number in alike)], np.int64)
        worst = np.empty_like(mine)
        self.waiter.for_collective(self.mpi.Iallreduce(mine, worst, MPI.MAX), what)
        if worst[0]:
            at_once, signal = divmod(int(worst[0]), AT_ONCE)
            message, first = self._message(error)
            raise (CollectiveError(message) if worst[0] == ERROR else
                   Interrupted(message, signal, bool(at_once), agreed=True)) from (error if first else None)
        return bool((worst == mine).all())  # of all ranks' numbers, the largest are also the smallest

    def together(self, work, errors=(BaseException,)):
        """Return work(), done by each rank for itself. If it raises one of ``errors`` on any, all fail. Collective."""
        result, error = None, None
        try:
            result = work()
        except errors as problem:
            error = problem
        self.agree(error)
        return result

    def once(self, work) -> str:
        """Return on all ranks the text that work() returns on rank 0. If it raises an error, all fail. Collective.

        It is for what each rank could find by itself, but only more slowly, and perhaps with another result.
        """
        return self.share_text(self.together(lambda: "" if self.rank else work()))[0]

    @contextmanager
    def one_end(self):
        """Do the block on all ranks. An error on any rank ends all, with one message. Collective.

        Raises CollectiveError on every rank.
        """
        try:
            yield
        except BaseException as error:
            self.stop(error)

    def stop(self, error: BaseException):
        """Raise an error that this rank met in the middle of an exchange on all ranks; the others meet it as they wait.

        A CollectiveError that all ranks have raised is raised again unchanged. So is SilentPeer, after an abort message
        to the others. Any other error becomes an abort message, and Aborted on this rank. With one rank, an
        interruption is raised again unchanged. Local.
        """
        error = interruption(error)
        if self.size == 1 and isinstance(error, (KeyboardInterrupt, Interrupted)):
            raise error
        if isinstance(error, SilentPeer):
            self.waiter.abort_messages.send(str(error))
        if isinstance(error, CollectiveError) and (not isinstance(error, Interrupted) or error.agreed):
            raise error
        self.stay_one()
        text = words_of(error) if self.size == 1 else f"rank {self.rank}: {words_of(error)}"
        signal = getattr(error, "signal", 0)
        self.waiter.abort_messages.send(text, signal)
        raise Aborted(text, signal) from error

    def _message(self, error):
        """Return (the errors of all ranks, the same on all; whether this rank is the first with its error)."""
        said: dict[str, list[int]] = {}  # an error's text is never empty: see words_of
        for rank, words in enumerate(self.share_text("" if error is None else words_of(error))):
            if words:
                said.setdefault(words, []).append(rank)
        first = any(ranks[0] == self.rank for ranks in said.values())
        if list(said.values()) == [list(range(self.size))]:
            return next(iter(said)), first
        return "; ".join(f"{ranks_named(ranks)}: {words}" for words, ranks in said.items()), first


def _weight(error) -> int:
    """Return an error's number for ``agree``. The largest number of all ranks decides."""
    if isinstance(error, Interrupted):
        return error.signal + AT_ONCE * error.at_once
    return 0 if error is None else ERROR
