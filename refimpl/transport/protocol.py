"""What moves arrays between ranks: the protocol that every transport fulfils.

    MpiMessages            NumPy arrays, as MPI messages
    device.staged.Staged   device arrays, through host memory and MPI
    device.nccl.Nccl       device arrays, from GPU to GPU by NCCL

A ``Communicator`` holds one transport for host arrays and may hold one for device arrays; it counts bytes, has the
time-out and the abort messages, and picks the transport by the kind of array. To add a transport (one-sided access,
another network) is to write a class with these members; ``tests/transport/test_protocol*.py`` hold it to them.

Everywhere: ``sends`` and ``receives`` are lists of (peer, contiguous array that is not empty); messages of one pair of
ranks keep their order; ``what`` names them in errors. A rank that waits raises SilentPeer, with the ranks that it
waits for, after the communicator's time-out without progress. It raises Aborted after another rank's abort message.
What is sent from the host may also be rows of a table, ``packed.Taken``.
"""

from typing import Callable, Protocol, runtime_checkable


@runtime_checkable
class Pending(Protocol):
    """Messages under way. What is sent must not be written, and what is received not read, until ``wait`` returns."""

    def advance(self) -> None:
        """Let the messages go on, while this rank computes: MPI moves them when it is called. Local."""

    def wait(self) -> None:
        """Return when all has come and gone. Collective over the ranks concerned.

        Device arrays: "when" is meant for the current stream. The host may return before; see ``Transport.settle``.
        """


@runtime_checkable
class Prepared(Protocol):
    """Messages that are sent again and again, from and to the same memory: what MPI calls persistent requests."""

    def start(self) -> None:
        """Begin to move them once more; ``Transport.wait_some`` tells when they are through. Local."""

    def free(self) -> None:
        """Let go of memory and requests. None of the messages may be under way. Local."""


@runtime_checkable
class Transport(Protocol):
    """A way for arrays of one kind to travel. name: for options and reports.  reason: a sentence why it was chosen."""

    name: str
    reason: str

    def start(self, sends: list, receives: list, what: str) -> Pending:
        """Begin to send and to receive. Collective over the ranks concerned."""

    def prepare(self, sends: list, receives: list, what: str, lane: int = 0) -> Prepared:
        """Return messages for ``Prepared.start``. Local.

        lane: messages are matched within theirs, so that several lanes may be under way in any order. A transport that
        matches messages by their order alone has lane 0 only.
        """

    def wait_some(self, started: list) -> list:
        """Return at least one of the ``started`` Prepared, when it is complete. Collective over the ranks concerned."""

    def test_some(self, started: list) -> list:
        """Return those of the ``started`` Prepared that are complete, perhaps none; advance the others. Local."""

    def settle(self, unless: Callable[[], bool] = lambda: False) -> None:
        """Return when nothing that was begun still moves, or unless() is true. Local.

        To be called before the host reads device memory: to read first would be to wait for peers without an end.
        """

    def close(self) -> None:
        """Give up what still moves, and let go of the other ranks; nothing can be moved after it. Local."""
